//! Keys, mouse and actions: what the person does, to the innermost thing first.

use super::action::Action;
use super::compose::{Sender, Wait};
use super::draft::Edit;
use super::effect::{Effect, Quit};
use super::event::{Mouse, MouseDid};
use super::geometry::Spot;
use super::key::KeyPress;
use super::keymap::{Context, Found};
use super::menu::{Item, Menu, Pick};
use super::sessions::{ACTIVE, Filters, Sort, State};
use super::update::{Wanted, wire};
use super::{App, Focus, Layer, Prompt, Purpose, Tone, details, draft::Draft};
use crate::clean_format;
use crate::model::key::Kind;
use crate::protocol::methods::Request;
use crate::text::{Clean, Untrusted};

impl App {
    /// Where keys are looked up, innermost first.
    pub fn contexts(&self) -> &'static [Context] {
        match self.layers.last() {
            Some(Layer::Help { .. } | Layer::Details(_) | Layer::Json(_) | Layer::Hidden(_)) => {
                &[Context::Pager, Context::Everywhere]
            }
            Some(Layer::Spawn) => &[Context::Spawn, Context::Text, Context::Everywhere],
            Some(Layer::Menu(_) | Layer::Palette(_)) => {
                &[Context::Menu, Context::Text, Context::Everywhere]
            }
            Some(Layer::Prompt(_)) => &[Context::Prompt, Context::Text, Context::Everywhere],
            None if self.sessions.filter_input.is_some() => {
                &[Context::Prompt, Context::Text, Context::Everywhere]
            }
            None => match self.focus {
                Focus::List => &[Context::List, Context::General, Context::Everywhere],
                Focus::Transcript => &[Context::Transcript, Context::General, Context::Everywhere],
                Focus::Compose => &[Context::Compose, Context::Text, Context::Everywhere],
            },
        }
    }

    /// Nothing can be changed: an observer, or a source that is only read.
    pub fn is_read_only(&self) -> bool {
        self.why_read_only().is_some()
    }

    /// Why nothing can be changed; `None`: it can.
    pub fn why_read_only(&self) -> Option<Clean> {
        if self.header.info.as_ref().is_some_and(|info| info.read_only) {
            Some("this source is read-only: nothing can be sent or changed".into())
        } else if self.observe {
            Some("observing: nothing can be sent or changed".into())
        } else {
            None
        }
    }

    pub(super) fn key(&mut self, key: KeyPress) {
        self.keys.push(key);
        let contexts = self.contexts();
        let mut found = self.keymap.find(contexts, &self.keys);
        if found == Found::Nothing && self.keys.len() > 1 {
            // The sequence led nowhere; its last key may still mean something.
            self.keys = vec![key];
            found = self.keymap.find(contexts, &self.keys);
        }
        match found {
            Found::Prefix => {}
            Found::Action(action) => {
                self.keys.clear();
                if !self.text_keeps(key, action) {
                    self.act(action);
                }
            }
            Found::Nothing => {
                self.keys.clear();
                self.typed(key);
            }
        }
    }

    /// In the spawn dialog `←` and `→` choose only where there is something to choose; in text they move the cursor.
    /// Where no path is typed they choose an attachment, and what deletes text takes it away.
    fn text_keeps(&mut self, key: KeyPress, action: Action) -> bool {
        let on_files = matches!(self.layers.last(), Some(Layer::Spawn));
        if let Some(form) = self
            .spawn
            .as_mut()
            .filter(|form| on_files && form.is_on_files())
        {
            match action {
                Action::ChooseNext | Action::ChoosePrevious => {
                    form.step_file(action == Action::ChooseNext);
                    return true;
                }
                Action::DeleteLeft | Action::DeleteRight => {
                    form.remove_file();
                    return true;
                }
                _ => {}
            }
        }
        let is_text = matches!(self.layers.last(), Some(Layer::Spawn))
            && matches!(action, Action::ChooseNext | Action::ChoosePrevious)
            && self
                .spawn
                .as_ref()
                .is_some_and(|form| form.draft(form.field).is_some());
        if is_text && let Found::Action(edit) = self.keymap.find(&[Context::Text], &[key]) {
            self.act(edit);
        }
        is_text
    }

    fn typed(&mut self, key: KeyPress) {
        let Some(c) = key.typed() else { return };
        if let Some(Layer::Menu(menu)) = self.layers.last()
            && menu.filter.is_none()
        {
            let item = menu.items.iter().find(|item| item.letter == Some(c));
            if let Some(pick) = item
                .filter(|item| item.blocked.is_none())
                .map(|item| item.pick.clone())
            {
                self.layers.pop();
                self.pick(pick);
            }
            return;
        }
        if matches!(self.layers.last(), Some(Layer::Spawn))
            && c == ' '
            && self.step_spawn_choice(true)
        {
            return;
        }
        self.edit(Edit::Insert(c));
    }

    fn step_spawn_choice(&mut self, forward: bool) -> bool {
        self.spawn
            .as_mut()
            .is_some_and(|form| form.step_choice(forward))
    }

    pub(super) fn paste(&mut self, text: &Untrusted) {
        self.keys.clear();
        if let Some(draft) = self.text_mut() {
            draft.paste(text);
            self.text_changed();
        } else if self.layers.is_empty() {
            // Pasting says where it should go: the box of the session that is shown. It never sends.
            self.focus_compose();
            if self.focus == Focus::Compose {
                self.compose.draft.paste(text);
                self.text_changed();
            }
        }
    }

    /// The text that is being typed.
    fn text_mut(&mut self) -> Option<&mut Draft> {
        let is_read_only = self.is_read_only();
        match self.layers.last_mut() {
            Some(Layer::Spawn) => {
                let form = self.spawn.as_mut()?;
                form.draft_mut(form.field)
            }
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => menu.filter.as_mut(),
            Some(Layer::Prompt(prompt)) => Some(&mut prompt.draft),
            Some(_) => None,
            None if self.sessions.filter_input.is_some() => self.sessions.filter_input.as_mut(),
            None if self.focus == Focus::Compose && !is_read_only => Some(&mut self.compose.draft),
            None => None,
        }
    }

    fn edit(&mut self, edit: Edit) {
        if let Some(draft) = self.text_mut()
            && draft.edit(edit)
        {
            self.text_changed();
        }
    }

    fn text_changed(&mut self) {
        match self.layers.last_mut() {
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => menu.narrow(),
            Some(Layer::Prompt(prompt)) => prompt.error = None,
            Some(Layer::Spawn) => {
                if let Some(form) = &mut self.spawn {
                    let field = form.field;
                    form.errors.retain(|(at, _)| *at != Some(field));
                }
            }
            Some(_) => {}
            None => {
                if let Some(input) = &self.sessions.filter_input {
                    self.sessions.filters.text = input.text();
                    self.refilter();
                } else if self.focus == Focus::Compose {
                    self.compose.recalled = None;
                    self.draft_changed();
                }
            }
        }
    }

    /// Filters, sorting or the tree changed.
    fn refilter(&mut self) {
        self.sessions.rebuild(self.now_ms);
        self.open_soon();
    }

    /// Does an action.
    pub(super) fn act(&mut self, action: Action) {
        use Action as A;
        if action.changes()
            && let Some(why) = self.why_read_only()
        {
            return self.say(Tone::Bad, why);
        }
        match action {
            A::Palette => self.open_palette(),
            A::Redraw => self.out.push(Effect::Redraw),
            A::Suspend => self.out.push(Effect::Suspend),
            A::Back => self.back(),
            A::Interrupt => self.interrupt(),
            A::NextPane => self.next_pane(true),
            A::PreviousPane => self.next_pane(false),
            A::Help => self.layers.push(Layer::Help { top: 0 }),
            A::Narrower => self.resize_list(-2),
            A::Wider => self.resize_list(2),
            A::Quit => self.ask_quit(),
            A::Down => self.step(1),
            A::Up => self.step(-1),
            A::HalfPageDown => self.page(true, 2),
            A::HalfPageUp => self.page(false, 2),
            A::PageDown => self.page(true, 1),
            A::PageUp => self.page(false, 1),
            A::First => self.end(false),
            A::Last => self.end(true),
            A::Accept => self.accept(),
            A::NextField | A::PreviousField => {
                if let Some(form) = &mut self.spawn {
                    form.step_field(action == A::NextField);
                }
            }
            A::ChooseNext | A::ChoosePrevious => {
                self.step_spawn_choice(action == A::ChooseNext);
            }
            A::Submit => self.submit_spawn(),
            A::Compose => self.focus_compose(),
            A::Send => self.compose_send(),
            A::NewLine => self.edit(Edit::NewLine),
            A::SendMenu => self.open_send_menu(),
            A::EditExternally => self.edit_externally(),
            A::Complete => self.complete(),
            A::Sends => self.open_sends(),
            A::Spawn => self.open_spawn(None),
            A::Details => self.ask_details(),
            A::Json if self.focus == Focus::Transcript => self.ask_line_json(),
            A::Json => self.ask_json(),
            _ if self.act_list(action) || self.act_transcript(action) => {}
            _ => self.act_text(action),
        }
    }

    fn act_list(&mut self, action: Action) -> bool {
        use Action as A;
        let filters = &mut self.sessions.filters;
        match action {
            A::Read => {
                self.open_selected();
                if self.transcript.key.is_some() {
                    self.focus = Focus::Transcript;
                }
            }
            A::Parent => {
                let current = self.sessions.current();
                let parent = current.and_then(|s| self.sessions.parent(&s.key)).cloned();
                match parent {
                    Some(parent) => {
                        self.sessions.reveal(&parent, self.now_ms);
                        self.open_soon();
                    }
                    None => self.say(Tone::Info, "it has no parent"),
                }
            }
            A::Fold => {
                if let Some(key) = self.sessions.selected.clone() {
                    if !self.sessions.folded.remove(&key) {
                        if self.sessions.children(&key).next().is_none() {
                            self.say(Tone::Info, "it has no sub-agents to fold");
                            return true;
                        }
                        self.sessions.folded.insert(key);
                    }
                    self.refilter();
                }
            }
            A::Filter => {
                let text = self.sessions.filters.text.clone();
                let mut draft = Draft::line(&text);
                draft.edit(Edit::End);
                self.sessions.filter_input = Some(draft);
                self.focus = Focus::List;
            }
            A::NextKind => {
                filters.kind = match filters.kind {
                    None => Some(Kind::ALL[0]),
                    Some(kind) => {
                        let at = Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0);
                        Kind::ALL.get(at + 1).copied()
                    }
                };
                self.refilter();
            }
            A::ActiveMinutes => {
                let at = ACTIVE
                    .iter()
                    .position(|m| *m == filters.active_minutes)
                    .unwrap_or(0);
                filters.active_minutes = ACTIVE[(at + 1) % ACTIVE.len()];
                self.refilter();
            }
            A::LiveOnly => {
                filters.live_only = !filters.live_only;
                self.refilter();
            }
            A::Archived => {
                filters.archived_too = !filters.archived_too;
                self.refilter();
            }
            A::ClearFilters => {
                *filters = Filters::default();
                self.sessions.filter_input = None;
                self.refilter();
            }
            A::AgentFilter => self.open_agents(),
            A::ChannelFilter => self.open_channels(),
            A::Hidden => self.open_hidden(),
            A::Sort => {
                let at = Sort::ALL
                    .iter()
                    .position(|s| *s == self.sessions.sort)
                    .unwrap_or(0);
                self.sessions.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
                let value = self.sessions.sort.as_str().to_owned();
                self.out.push(Effect::SetPreference {
                    name: "sort",
                    value,
                });
                self.refilter();
            }
            A::Tree => {
                self.sessions.tree = !self.sessions.tree;
                let value = self.sessions.tree.to_string();
                self.out.push(Effect::SetPreference {
                    name: "tree",
                    value,
                });
                self.refilter();
            }
            A::Rename => self.open_rename(),
            A::Archive => self.archive(),
            A::Delete => self.open_delete(),
            A::SendPolicy => self.open_policy(),
            A::Abort => self.open_abort(),
            A::AbortTree => {
                if let Some(key) = self.changeable() {
                    self.abort(&key, true);
                }
            }
            A::Reset => self.open_reset(),
            A::CopyKey => {
                if let Some(key) = self.subject() {
                    self.out.push(Effect::Copy(key.clean()));
                    self.say(Tone::Good, clean_format!("copied {}", key.clean()));
                }
            }
            A::PlayDemo => {
                if self.header.info.as_ref().is_some_and(|info| info.demo) {
                    self.ask(
                        Wanted::Change("the demo plays again".into()),
                        Request::PlayDemo {},
                    );
                } else {
                    self.say(Tone::Info, "this is not the demo");
                }
            }
            _ => return false,
        }
        true
    }

    fn act_transcript(&mut self, action: Action) -> bool {
        use Action as A;
        match action {
            A::Follow => self.transcript.follow(),
            A::ToolResults => self.toggle_shown(|t| &mut t.show_tools),
            A::Reasoning => self.toggle_shown(|t| &mut t.show_reasoning),
            A::Raw => self.toggle_shown(|t| &mut t.raw),
            A::Secrets => self.transcript.show_secrets = !self.transcript.show_secrets,
            A::Open => self.transcript_open(),
            A::Wire => self.follow_wire(),
            A::WireBack => self.wire_back(),
            A::NextInter => self.go_inter(true),
            A::PreviousInter => self.go_inter(false),
            A::Search => self.ask_search(),
            A::SearchNext => self.search_step(true),
            A::SearchPrevious => self.search_step(false),
            A::CopyMessage => self.copy_message(),
            _ => return false,
        }
        true
    }

    fn act_text(&mut self, action: Action) {
        use Action as A;
        let edit = match action {
            A::TextLeft => Edit::Left,
            A::TextRight => Edit::Right,
            A::TextUp
                if self.is_composing()
                    && self.compose.draft.at_first_line()
                    && self.recall(true) =>
            {
                return;
            }
            A::TextUp => Edit::Up,
            A::TextDown
                if self.is_composing() && self.compose.recalled.is_some() && self.recall(false) =>
            {
                return;
            }
            A::TextDown => Edit::Down,
            A::WordLeft => Edit::WordLeft,
            A::WordRight => Edit::WordRight,
            A::LineStart => Edit::LineStart,
            A::LineEnd => Edit::LineEnd,
            A::TextStart => Edit::Start,
            A::TextEnd => Edit::End,
            A::DeleteLeft => Edit::Backspace,
            A::DeleteRight => Edit::Delete,
            A::DeleteWord => Edit::DeleteWord,
            A::DeleteWordRight => Edit::DeleteWordRight,
            A::DeleteToStart => Edit::DeleteToStart,
            A::DeleteToEnd => Edit::DeleteToEnd,
            A::Undo => Edit::Undo,
            A::Redo => Edit::Redo,
            _ => return,
        };
        // In the dialog, `↑` and `↓` leave a field they cannot move in.
        if let (Some(Layer::Spawn), Edit::Up | Edit::Down) = (self.layers.last(), edit)
            && let Some(form) = &mut self.spawn
        {
            let before = form.draft(form.field).map(Draft::cursor);
            if let Some(draft) = form.draft_mut(form.field) {
                draft.edit(edit);
            }
            if form.draft(form.field).map(Draft::cursor) == before {
                form.step_field(edit == Edit::Down);
            }
            return;
        }
        self.edit(edit);
    }

    fn is_composing(&self) -> bool {
        self.layers.is_empty()
            && self.sessions.filter_input.is_none()
            && self.focus == Focus::Compose
    }

    /// `Esc`: the innermost thing first. Never stops a run.
    fn back(&mut self) {
        if self.layers.pop().is_some() {
            return;
        }
        if self.sessions.filter_input.take().is_some() {
            self.sessions.filters.text = Untrusted::default();
            return self.refilter();
        }
        match self.focus {
            Focus::Compose => {
                self.save_draft();
                self.focus = Focus::Transcript;
            }
            Focus::Transcript if self.transcript.search.take().is_some() => {}
            Focus::Transcript => self.focus = Focus::List,
            Focus::List if !self.sessions.filters.text.is_empty() => {
                self.sessions.filters.text = Untrusted::default();
                self.refilter();
            }
            Focus::List => {}
        }
    }

    /// `Ctrl+C`: clears text, else stops waiting, else asks to quit; at that question it quits.
    fn interrupt(&mut self) {
        if let Some(Layer::Menu(menu)) = self.layers.last()
            && menu.is_quit_question
        {
            return self.quit(Quit::Keep);
        }
        if self.text_mut().is_some_and(|draft| !draft.is_empty()) {
            return self.edit(Edit::Clear);
        }
        if !self.layers.is_empty() {
            return self.back();
        }
        if !self.stop_waiting() {
            self.open_quit_question();
        }
    }

    /// `q`: asks only when runs are alive.
    fn ask_quit(&mut self) {
        let (running, queued) = self.sessions.run_counts();
        if running + queued == 0 || self.is_read_only() {
            self.quit(Quit::Keep);
        } else {
            self.open_quit_question();
        }
    }

    fn open_quit_question(&mut self) {
        let (running, queued) = self.sessions.run_counts();
        let is_alive = running + queued > 0 && !self.is_read_only();
        let mut items = Vec::new();
        if is_alive {
            let keep = Item::new("keep them in the background", Pick::Quit(Quit::Keep));
            items.push(keep.letter('k'));
            items.push(Item::new("stop them", Pick::Quit(Quit::Stop)).letter('s'));
            items.push(Item::new("stay", Pick::Close).letter('n'));
        } else {
            items.push(Item::new("quit", Pick::Quit(Quit::Keep)).letter('y'));
            items.push(Item::new("stay", Pick::Close).letter('n'));
        }
        let mut menu = Menu::new("Quit?", items);
        if is_alive {
            menu.note = vec![clean_format!("{} running, {} waiting", running, queued)];
        }
        menu.is_quit_question = true;
        self.layers.push(Layer::Menu(menu));
    }

    fn quit(&mut self, how: Quit) {
        self.save_draft();
        if how == Quit::Stop {
            let mut runs: Vec<String> = Vec::new();
            for live in self.sessions.live.values() {
                runs.extend(live.running.iter().cloned());
                runs.extend(live.queued.iter().cloned());
            }
            for run in runs {
                let request = Request::Abort {
                    target: run.into(),
                    tree: false,
                };
                self.ask(Wanted::Change("stopped".into()), request);
            }
        }
        self.out.push(Effect::Quit(how));
    }

    fn next_pane(&mut self, forward: bool) {
        let order = [Focus::List, Focus::Transcript, Focus::Compose];
        let at = order
            .iter()
            .position(|focus| *focus == self.focus)
            .unwrap_or(0);
        let by = if forward { 1 } else { 2 };
        let mut next = order[(at + by) % 3];
        if next == Focus::Compose && self.is_read_only() {
            next = order[(at + 2 * by) % 3];
        }
        if next == Focus::Compose || next == Focus::Transcript {
            self.open_selected();
        }
        if self.transcript.key.is_some() || next == Focus::List {
            self.focus = next;
        }
    }

    fn resize_list(&mut self, by: i16) {
        self.list_width = self.list_width.saturating_add_signed(by).clamp(24, 80);
        let value = self.list_width.to_string();
        self.out.push(Effect::SetPreference {
            name: "list_width",
            value,
        });
    }

    /// Moves by one.
    fn step(&mut self, by: isize) {
        match self.layers.last_mut() {
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => menu.step(by),
            Some(Layer::Spawn | Layer::Prompt(_)) => {}
            Some(_) => self.scroll_pager(by),
            None if self.sessions.filter_input.is_some() || self.focus == Focus::List => {
                self.sessions.step(by);
                self.open_soon();
            }
            None => self.transcript_step(by > 0),
        }
    }

    fn scroll_pager(&mut self, by: isize) {
        match self.layers.last_mut() {
            Some(Layer::Help { top }) => *top = top.saturating_add_signed(by),
            Some(Layer::Details(pager) | Layer::Json(pager) | Layer::Hidden(pager)) => {
                pager.top = pager.top.saturating_add_signed(by).min(pager.lines.len());
            }
            _ => {}
        }
    }

    /// Moves by a page, or a part of one.
    fn page(&mut self, down: bool, part: u16) {
        let signed = |rows: u16| {
            let rows = isize::try_from((rows / part).max(1)).unwrap_or(1);
            if down { rows } else { -rows }
        };
        match self.layers.last_mut() {
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => menu.step(signed(10)),
            Some(Layer::Spawn | Layer::Prompt(_)) => {}
            Some(_) => self.scroll_pager(signed(self.view.pager_rows)),
            None if self.focus == Focus::List => {
                self.sessions.step(signed(self.view.list_rows));
                self.open_soon();
            }
            None => {
                // One line of the page before stays in sight.
                let rows = self.view.transcript.rows;
                self.transcript_scroll(signed(if part == 1 {
                    rows.saturating_sub(1)
                } else {
                    rows
                }));
            }
        }
    }

    fn end(&mut self, last: bool) {
        match self.layers.last_mut() {
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => {
                menu.step(if last { isize::MAX } else { isize::MIN });
            }
            Some(Layer::Spawn | Layer::Prompt(_)) => {}
            Some(_) => self.scroll_pager(if last { 1_000_000 } else { -1_000_000 }),
            None if self.focus == Focus::List => {
                self.sessions
                    .step(if last { isize::MAX } else { isize::MIN });
                self.open_soon();
            }
            None if last => self.transcript.follow(),
            None => self.transcript_first(),
        }
    }

    /// `Enter` in a dialog.
    fn accept(&mut self) {
        match self.layers.last() {
            Some(Layer::Menu(menu) | Layer::Palette(menu)) => {
                let Some(item) = menu.current() else { return };
                if let Some(why) = item.blocked.clone() {
                    return self.say(Tone::Info, why);
                }
                let pick = item.pick.clone();
                self.layers.pop();
                self.pick(pick);
            }
            Some(Layer::Spawn) => self.spawn_enter(),
            Some(Layer::Prompt(prompt)) => {
                let (purpose, text) = (prompt.purpose.clone(), prompt.draft.text());
                self.layers.pop();
                match purpose {
                    Purpose::Search => self.search(text),
                    Purpose::Rename(key) => {
                        let value = match text.raw().trim() {
                            "" => serde_json::Value::Null,
                            label => label.into(),
                        };
                        self.patch(&key, "label", value, "renamed");
                    }
                }
            }
            Some(_) => {}
            None => {
                // The filter holds; its text stays visible.
                if self.sessions.filter_input.take().is_some() {
                    self.open_selected();
                }
            }
        }
    }

    /// Does what an item of a menu says.
    fn pick(&mut self, pick: Pick) {
        match pick {
            Pick::Close => {}
            Pick::Do(action) => self.act(action),
            Pick::Agent(agent) => {
                self.sessions.filters.agent = agent;
                self.refilter();
            }
            Pick::Channel(channel) => {
                self.sessions.filters.channel = channel;
                self.refilter();
            }
            Pick::Sender(sender) => self.compose.sender = sender,
            Pick::Wait(wait) => {
                self.compose.wait = wait;
                let value = wait.as_str().to_owned();
                self.out.push(Effect::SetPreference {
                    name: "wait",
                    value,
                });
            }
            Pick::Policy(key, policy) => {
                let value = policy.map_or(serde_json::Value::Null, Into::into);
                self.patch(&key, "sendPolicy", value, "send policy changed");
            }
            Pick::Delete(key) => {
                let request = Request::Delete { key: wire(&key) };
                self.ask(Wanted::Change("deleted".into()), request);
            }
            Pick::Abort(key, tree) => self.abort(&key, tree),
            Pick::Reset(key) => {
                let request = Request::Reset { key: wire(&key) };
                self.ask(Wanted::Change("a new transcript begins".into()), request);
            }
            Pick::GoTo(key) => self.go_to(&key, None),
            Pick::Quit(how) => self.quit(how),
        }
    }

    /// The session an action changes; says why when there is none.
    fn changeable(&mut self) -> Option<crate::model::key::SessionKey> {
        if let Some(why) = self.why_read_only() {
            self.say(Tone::Bad, why);
            return None;
        }
        self.subject()
    }

    /// As [`App::changeable`], for what a main session refuses.
    fn removable(&mut self, what: &'static str) -> Option<crate::model::key::SessionKey> {
        let key = self.changeable()?;
        let session = self.sessions.get(&key);
        if session.is_some_and(|session| session.kind == Kind::Main && !session.archived) {
            let name = self.sessions.speaker(&key);
            self.say(
                Tone::Bad,
                clean_format!("{} is a main session: it can be reset, not {}", name, what),
            );
            return None;
        }
        Some(key)
    }

    fn open_palette(&mut self) {
        if matches!(self.layers.last(), Some(Layer::Palette(_))) {
            self.layers.pop();
            return;
        }
        // A dialog keeps its text; the actions are those of the pane under it.
        let items = super::help::palette(self);
        let mut menu = Menu::new("Actions", items);
        menu.filter = Some(Draft::line(&Untrusted::default()));
        self.layers.push(Layer::Palette(menu));
    }

    fn open_send_menu(&mut self) {
        let Some(target) = self.compose.target.clone() else {
            return;
        };
        let operator = self.compose.sender == Sender::Operator;
        let mut items = vec![
            Item::new("from operator", Pick::Sender(Sender::Operator))
                .detail("a plain message from outside".into())
                .marked(operator),
        ];
        for key in self.sessions.shown() {
            if *key == target {
                continue;
            }
            let sender = Sender::Session(key.clone());
            let is_it = self.compose.sender == sender;
            let label = clean_format!("from {}", self.sessions.speaker(key));
            items.push(
                Item::new(label, Pick::Sender(sender))
                    .detail(key.clean())
                    .marked(is_it),
            );
        }
        for wait in Wait::ALL {
            let label = clean_format!("wait {}", wait.as_str());
            let note = if wait == Wait::None {
                ""
            } else {
                "the run goes on in any case"
            };
            let is_it = self.compose.wait == wait;
            // The waits come first: they are few, sessions may be many.
            let at = 1 + wait as usize;
            items.insert(
                at,
                Item::new(label, Pick::Wait(wait))
                    .detail(note.into())
                    .marked(is_it),
            );
        }
        let mut menu = Menu::new("Send", items);
        menu.selected = 0;
        menu.filter = Some(Draft::line(&Untrusted::default()));
        self.layers.push(Layer::Menu(menu));
    }

    fn open_sends(&mut self) {
        let items: Vec<Item> = self
            .compose
            .ledger
            .iter()
            .map(|sent| {
                let key = super::sessions::identity(&sent.entry.target);
                let first = sent.entry.text.clean();
                let label = clean_format!("{} · {}", self.sessions.speaker(&key), first);
                let age = super::ages::shown(self.now_ms, sent.entry.sent_at);
                let state = sent.state_shown();
                Item::new(label, Pick::GoTo(key)).detail(clean_format!("{} · {}", state, age))
            })
            .collect();
        if items.is_empty() {
            return self.say(Tone::Info, "nothing was sent from this screen yet");
        }
        let mut menu = Menu::new("Sends", items);
        menu.filter = Some(Draft::line(&Untrusted::default()));
        self.layers.push(Layer::Menu(menu));
    }

    fn open_agents(&mut self) {
        let mut counts = std::collections::BTreeMap::new();
        for session in self.sessions.iter() {
            *counts.entry(session.agent.clone()).or_insert(0_usize) += 1;
        }
        let chosen = self.sessions.filters.agent.clone();
        let mut items = vec![
            Item::new("any agent", Pick::Agent(None))
                .detail(clean_format!("{}", self.sessions.len()))
                .marked(chosen.is_none()),
        ];
        for (agent, count) in counts {
            let Some(agent) = agent.as_deref().cloned() else {
                continue;
            };
            let is_it = chosen.as_ref() == Some(&agent);
            let item = Item::new(agent.clean(), Pick::Agent(Some(agent)));
            items.push(item.detail(clean_format!("{}", count)).marked(is_it));
        }
        let mut menu = Menu::new("Agent", items);
        menu.filter = Some(Draft::line(&Untrusted::default()));
        self.layers.push(Layer::Menu(menu));
    }

    fn open_channels(&mut self) {
        let mut counts = std::collections::BTreeMap::new();
        for session in self.sessions.iter() {
            *counts.entry(session.channel.clone()).or_insert(0_usize) += 1;
        }
        let chosen = self.sessions.filters.channel.clone();
        let mut items = vec![
            Item::new("any channel", Pick::Channel(None))
                .detail(clean_format!("{}", self.sessions.len()))
                .marked(chosen.is_none()),
        ];
        for (channel, count) in counts {
            let channel = Clean::clone(&channel);
            let is_it = chosen.as_ref() == Some(&channel);
            let item = Item::new(channel.clone(), Pick::Channel(Some(channel)));
            items.push(item.detail(clean_format!("{}", count)).marked(is_it));
        }
        let mut menu = Menu::new("Channel", items);
        menu.filter = Some(Draft::line(&Untrusted::default()));
        self.layers.push(Layer::Menu(menu));
    }

    fn open_hidden(&mut self) {
        use details::PagerLine;
        let (shown, all) = self.sessions.counts();
        let mut lines = vec![PagerLine::Text(clean_format!(
            "{} of {} sessions match",
            shown,
            all
        ))];
        let parts = self.sessions.hidden(self.now_ms);
        if parts.is_empty() {
            lines.push(PagerLine::Text("nothing is hidden".into()));
        } else {
            lines.push(PagerLine::Heading("Hidden".into()));
            lines.extend(
                parts
                    .into_iter()
                    .map(|part| PagerLine::Fact(clean_format!("{}", part.count), part.why)),
            );
        }
        if !self.sessions.warnings.is_empty() {
            lines.push(PagerLine::Heading("Remarks of the source".into()));
            lines.extend(self.sessions.warnings.iter().cloned().map(PagerLine::Text));
        }
        self.layers.push(Layer::Hidden(details::Pager {
            title: "What is hidden and why".into(),
            lines,
            ..details::Pager::default()
        }));
    }

    fn open_rename(&mut self) {
        let Some(key) = self.changeable() else { return };
        let label = self
            .sessions
            .get(&key)
            .and_then(super::sessions::Session::label);
        let label = Untrusted::new(label.unwrap_or_default().into_string());
        let mut draft = Draft::line(&label);
        draft.edit(Edit::End);
        self.layers.push(Layer::Prompt(Prompt {
            title: clean_format!("Label of {} (blank: none)", key.clean()),
            draft,
            purpose: Purpose::Rename(key),
            error: None,
        }));
    }

    fn archive(&mut self) {
        let Some(key) = self.removable("archived") else {
            return;
        };
        if self.sessions.get(&key).is_some_and(|s| s.archived) {
            let request = Request::Restore { key: wire(&key) };
            self.ask(Wanted::Change("restored".into()), request);
        } else {
            let request = Request::Archive { key: wire(&key) };
            self.ask(
                Wanted::Change("archived (. shows archived ones)".into()),
                request,
            );
        }
    }

    fn confirm(&mut self, title: Clean, note: Vec<Clean>, yes: Vec<Item>) {
        let mut items = vec![Item::new("no", Pick::Close).letter('n')];
        items.extend(yes);
        let mut menu = Menu::new(title, items);
        menu.note = note;
        self.layers.push(Layer::Menu(menu));
    }

    fn open_delete(&mut self) {
        let Some(key) = self.removable("deleted") else {
            return;
        };
        let title = clean_format!("Delete {}?", self.sessions.name(&key));
        let note = vec![
            key.clean(),
            "its transcript is kept, under another name".into(),
        ];
        let yes = Item::new("delete it", Pick::Delete(key)).letter('y');
        self.confirm(title, note, vec![yes]);
    }

    fn open_reset(&mut self) {
        let Some(key) = self.changeable() else { return };
        let title = clean_format!("Begin a new transcript for {}?", self.sessions.name(&key));
        let note = vec![key.clean(), "the old one is kept beside it".into()];
        let yes = Item::new("begin a new one", Pick::Reset(key)).letter('y');
        self.confirm(title, note, vec![yes]);
    }

    fn open_abort(&mut self) {
        let Some(key) = self.changeable() else { return };
        let state = self.sessions.get(&key).map(|s| self.sessions.state(s));
        if !matches!(state, Some(State::Running | State::Queued)) {
            return self.say(Tone::Info, "nothing runs or waits there");
        }
        let title = clean_format!("Abort what runs in {}?", self.sessions.name(&key));
        let yes = vec![
            Item::new("abort the run", Pick::Abort(key.clone(), false)).letter('y'),
            Item::new(
                "abort it and its sub-agents",
                Pick::Abort(key.clone(), true),
            )
            .letter('t'),
        ];
        self.confirm(title, vec![key.clean()], yes);
    }

    fn open_policy(&mut self) {
        let Some(key) = self.changeable() else { return };
        let chosen = self
            .sessions
            .get(&key)
            .and_then(|s| s.send_policy)
            .map(crate::model::session::SendPolicy::as_str);
        let choices = [
            (Some("allow"), "allow", 'a'),
            (Some("deny"), "deny", 'd'),
            (None, "inherit: what the policy says", 'i'),
        ];
        let items = choices
            .into_iter()
            .map(|(policy, words, letter)| {
                Item::new(words, Pick::Policy(key.clone(), policy))
                    .marked(policy == chosen)
                    .letter(letter)
            })
            .collect();
        let title = clean_format!("Sends to {}", self.sessions.name(&key));
        self.layers.push(Layer::Menu(Menu::new(title, items)));
    }

    fn edit_externally(&mut self) {
        let text = match (self.layers.last(), &self.spawn) {
            (Some(Layer::Spawn), Some(form)) if form.field == super::spawn::Field::Task => {
                form.task.text()
            }
            (None, _) if self.focus == Focus::Compose => self.compose.text(),
            _ => return self.say(Tone::Info, "there is no text to edit here"),
        };
        self.out.push(Effect::EditExternally(text));
    }

    pub(super) fn edited(&mut self, result: Result<Untrusted, Clean>) {
        match result {
            Ok(text) => {
                let text = Untrusted::new(text.raw().trim_end_matches('\n'));
                if let Some(draft) = self.text_mut() {
                    draft.set(&text);
                    self.text_changed();
                }
            }
            Err(why) => self.say(Tone::Bad, why),
        }
    }

    pub(super) fn mouse(&mut self, mouse: Mouse) {
        let spot = self
            .view
            .spots
            .iter()
            .rev()
            .find(|(area, _)| area.contains(mouse.column, mouse.row))
            .map(|(_, spot)| spot.clone());
        match mouse.did {
            MouseDid::Press => self.press(spot),
            MouseDid::Drag if self.drags => {
                self.list_width = mouse.column.clamp(24, 80);
            }
            MouseDid::Release if self.drags => {
                self.drags = false;
                self.resize_list(0);
            }
            MouseDid::Drag | MouseDid::Release => {}
            MouseDid::WheelUp => self.wheel(spot, -1),
            MouseDid::WheelDown => self.wheel(spot, 1),
        }
    }

    fn press(&mut self, spot: Option<Spot>) {
        let is_inside = matches!(spot, Some(Spot::Layer | Spot::MenuItem(_) | Spot::Field(_)));
        if !self.layers.is_empty() && !is_inside {
            return self.back();
        }
        match spot {
            Some(Spot::Pane(Focus::Compose)) => self.focus_compose(),
            Some(Spot::Pane(focus)) => self.focus = focus,
            Some(Spot::Divider) => self.drags = true,
            Some(Spot::Session(key)) => {
                self.focus = Focus::List;
                let again = self.sessions.selected.as_ref() == Some(&key) && self.view.narrow;
                self.sessions.selected = Some(key);
                self.open_selected();
                if again {
                    self.focus = Focus::Transcript;
                }
            }
            Some(Spot::KindChip(kind)) => {
                self.sessions.filters.kind = kind;
                self.refilter();
            }
            Some(Spot::Message(position)) => {
                self.focus = Focus::Transcript;
                let again = self.transcript.cursor == Some(position);
                self.transcript.go(position);
                if again {
                    self.transcript_open();
                }
            }
            Some(Spot::FollowMark) => self.transcript.follow(),
            Some(Spot::MenuItem(at)) => {
                if let Some(Layer::Menu(menu) | Layer::Palette(menu)) = self.layers.last_mut() {
                    menu.selected = at.min(menu.shown.len().saturating_sub(1));
                    self.accept();
                }
            }
            Some(Spot::Field(field)) => {
                if let Some(form) = &mut self.spawn {
                    form.field = field;
                }
            }
            Some(Spot::Layer) | None => {}
        }
    }

    fn wheel(&mut self, spot: Option<Spot>, by: isize) {
        const LINES: isize = 3;
        if !self.layers.is_empty() {
            return match self.layers.last() {
                Some(Layer::Spawn) => {
                    if let Some(form) = &mut self.spawn {
                        form.top = form.top.saturating_add_signed(by);
                    }
                }
                Some(Layer::Menu(_) | Layer::Palette(_)) => self.step(by),
                _ => self.scroll_pager(by * LINES),
            };
        }
        match spot {
            Some(Spot::Session(_) | Spot::KindChip(_) | Spot::Pane(Focus::List)) => {
                self.sessions.step(by);
                self.open_soon();
            }
            Some(Spot::Message(_) | Spot::FollowMark | Spot::Pane(Focus::Transcript)) => {
                self.transcript_scroll(by * LINES);
            }
            _ => {}
        }
    }

    /// The keys of a sequence that is not complete.
    pub fn keys_so_far(&self) -> Clean {
        super::keymap::shown(&self.keys)
    }
}
