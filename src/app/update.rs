//! The one door: an event comes in, effects go out.

use super::effect::Effect;
use super::event::{Event, Ticket, What};
use super::sessions::identity;
use super::transcript::Scroll;
use super::{App, Layer, Link, Tone, ages};
use crate::clean_format;
use crate::model::event::{self as backend, ConnectionState};
use crate::model::key::SessionKey;
use crate::protocol::methods::{
    Call, Caller, Failure, HistoryRequest, HistorySpan, ListRequest, Reply, Request,
};
use crate::text::{Clean, Untrusted};

/// What an answer is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wanted {
    Info,
    List,
    Runs,
    /// The end of a transcript.
    Tail(SessionKey),
    Older(SessionKey),
    Policy(SessionKey),
    Details(SessionKey),
    Json(SessionKey),
    /// One line of a transcript as it is stored.
    LineJson(u64),
    Choices(SessionKey),
    Spawn,
    /// A person's plain message, by its id.
    Send(String),
    Wait(String),
    /// A `sessions_send`.
    ToolSend(String),
    /// What is said when it is done.
    Change(Clean),
}

/// Messages of a page.
const PAGE: usize = 200;
/// Older messages are asked for when fewer than this many stand above the first one drawn.
const NEAR_TOP: usize = 20;
/// Pause after which the session under the cursor is shown.
const PAUSE_MS: i64 = 80;
/// How long a toast stays.
const TOAST_MS: i64 = 6_000;

/// Takes an event in.
pub fn update(app: &mut App, event: Event) -> Vec<Effect> {
    let effects = update_in_burst(app, event);
    app.settle();
    effects
}

/// As [`update`] for one event of many: what they change is done once, by [`App::settle`] or with the next event that is
/// not from the backend.
pub fn update_in_burst(app: &mut App, event: Event) -> Vec<Effect> {
    app.now_ms = event.now_ms;
    if !matches!(event.what, What::Backend(_)) {
        app.settle();
    }
    match event.what {
        What::Started => app.start(),
        What::Key(key) => {
            app.untouched = false;
            app.key(key);
        }
        What::Paste(text) => {
            app.untouched = false;
            app.paste(&text);
        }
        What::Mouse(mouse) => {
            app.untouched = false;
            app.mouse(mouse);
        }
        What::Resize(size) => app.size = size,
        What::Tick => app.tick(),
        What::Drawn(view) => app.drawn(*view),
        What::Replied { ticket, result } => {
            // Nobody waits for a late answer any more.
            if let Some(wanted) = app.pending.remove(&ticket) {
                match result {
                    Ok(reply) => app.replied(wanted, *reply),
                    Err(failure) => app.refused(wanted, failure),
                }
            }
        }
        What::Backend(event) => app.backend(*event),
        What::BackendGone => {
            app.header.link = Link::Offline {
                since: app.now_ms,
                reason: Some("the source closed the connection".into()),
            };
        }
        What::Drafts(drafts) => app.drafts_loaded(drafts),
        What::Ledger(entries) => app.ledger_loaded(entries),
        What::Edited(result) => app.edited(result),
        What::FileRead { path, result } => app.file_read(&path, result),
        What::Trouble(text) => app.say(Tone::Bad, text),
        What::Resumed => app.out.push(Effect::Redraw),
        What::Leaving => app.save_draft(),
    }
    std::mem::take(&mut app.out)
}

impl App {
    /// Does what was put off in a burst of events. Must come before the state is drawn.
    pub fn settle(&mut self) {
        self.sessions.settle(self.now_ms);
    }

    /// When [`What::Tick`] is due next; `None`: not before something happens.
    pub fn next_wake(&self) -> Option<i64> {
        let mut wakes: Vec<i64> = Vec::new();
        wakes.extend(self.open_due_at);
        wakes.extend(self.compose.save_due_at);
        wakes.extend(self.toast.as_ref().map(|toast| toast.until));
        // The clock of the header.
        wakes.push((self.now_ms.div_euclid(60_000) + 1) * 60_000);
        let rows = usize::from(self.view.list_rows);
        let drawn = self
            .sessions
            .lines
            .iter()
            .skip(self.view.list_top)
            .take(rows);
        let times = drawn
            .filter_map(|line| self.sessions.session_of(line)?.updated_at)
            .map(|at| ages::changes_at(self.now_ms, at));
        wakes.extend(times);
        if self.is_animated() {
            wakes.push(self.now_ms + SPIN_MS);
        }
        let counts_down = matches!(
            self.header.link,
            Link::Reconnecting {
                next_try_at: Some(_),
                ..
            }
        );
        if counts_down || self.compose.is_waiting() {
            wakes.push(self.now_ms + 1000);
        }
        wakes.into_iter().min().map(|at| at.max(self.now_ms + 1))
    }

    /// Step of what turns while something runs; rises every [`SPIN_MS`].
    pub fn spin(&self) -> usize {
        usize::try_from(self.now_ms.div_euclid(SPIN_MS)).unwrap_or(0)
    }

    fn is_animated(&self) -> bool {
        self.sessions
            .live
            .values()
            .any(|live| !live.running.is_empty())
            || !self.transcript.streams.is_empty()
    }

    fn start(&mut self) {
        self.ask(Wanted::Info, Request::Info {});
        self.reload_list();
        self.title();
    }

    /// Asks the backend as the operator.
    pub(super) fn ask(&mut self, wanted: Wanted, request: Request) -> Ticket {
        self.ask_as(wanted, None, request)
    }

    /// Asks the backend as a session.
    pub(super) fn ask_as(
        &mut self,
        wanted: Wanted,
        caller: Option<&SessionKey>,
        request: Request,
    ) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.pending.insert(ticket, wanted);
        let caller = Caller {
            session: caller.map(|key| Untrusted::new(key.as_str())),
        };
        let call = Box::new(Call { caller, request });
        self.out.push(Effect::Call { ticket, call });
        ticket
    }

    /// Gives up what is asked for: answers that come are late.
    pub(super) fn give_up(&mut self, which: impl Fn(&Wanted) -> bool) -> bool {
        let tickets: Vec<Ticket> = self
            .pending
            .iter()
            .filter(|(_, wanted)| which(wanted))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in &tickets {
            self.pending.remove(ticket);
            self.out.push(Effect::Cancel { ticket: *ticket });
        }
        !tickets.is_empty()
    }

    /// Says what happened.
    pub(super) fn say(&mut self, tone: Tone, text: impl Into<Clean>) {
        self.toast = Some(super::Toast {
            text: text.into(),
            tone,
            until: self.now_ms + TOAST_MS,
        });
    }

    pub(super) fn title(&mut self) {
        let title = match &self.transcript.key {
            Some(key) => clean_format!("crosstalk — {}", self.sessions.name(key)),
            None => Clean::fixed("crosstalk"),
        };
        if title != self.last_title {
            self.last_title = title.clone();
            self.out.push(Effect::Title(title));
        }
    }

    fn reload_list(&mut self) {
        self.give_up(|wanted| matches!(wanted, Wanted::List | Wanted::Runs));
        let list = ListRequest {
            archived_too: true,
            ..ListRequest::default()
        };
        self.ask(Wanted::List, Request::List(list));
        self.ask(Wanted::Runs, Request::Runs {});
    }

    fn tick(&mut self) {
        if self.open_due_at.is_some_and(|due| due <= self.now_ms) {
            self.open_selected();
        }
        if self
            .compose
            .save_due_at
            .is_some_and(|due| due <= self.now_ms)
        {
            self.save_draft();
        }
        if self
            .toast
            .as_ref()
            .is_some_and(|toast| toast.until <= self.now_ms)
        {
            self.toast = None;
        }
        if self.sessions.filters.active_minutes.is_some() {
            self.sessions.rebuild(self.now_ms);
        }
    }

    /// The cursor of the list moved: its session is shown after a pause.
    pub(super) fn open_soon(&mut self) {
        if self.sessions.selected != self.transcript.key {
            self.open_due_at = Some(self.now_ms + PAUSE_MS);
        }
    }

    /// Shows the session under the cursor now.
    pub(super) fn open_selected(&mut self) {
        self.open_due_at = None;
        if let Some(key) = self.sessions.selected.clone() {
            self.open(&key);
        }
    }

    /// Shows a session.
    pub(super) fn open(&mut self, key: &SessionKey) {
        if self.transcript.key.as_ref() == Some(key) {
            return;
        }
        self.switch_draft(key);
        self.transcript.reset_to(Some(key.clone()));
        self.reload_transcript();
        self.ask_policy();
        self.title();
    }

    /// What holds for sends to the session that is shown.
    pub(super) fn ask_policy(&mut self) {
        self.give_up(|wanted| matches!(wanted, Wanted::Policy(_)));
        if let Some(key) = self.transcript.key.clone() {
            let request = Request::Detail { key: wire(&key) };
            self.ask(Wanted::Policy(key), request);
        }
    }

    pub(super) fn reload_transcript(&mut self) {
        let Some(key) = self.transcript.key.clone() else {
            return;
        };
        self.give_up(|w| matches!(w, Wanted::Tail(_) | Wanted::Older(_)));
        self.transcript.loading_older = false;
        if self.transcript.items.is_empty() {
            self.transcript.load = super::transcript::Load::Loading;
        }
        let request = history(&key, HistorySpan::Tail, PAGE);
        self.ask(Wanted::Tail(key), request);
    }

    pub(super) fn ask_older(&mut self) {
        let transcript = &mut self.transcript;
        let Some(key) = transcript.key.clone() else {
            return;
        };
        if transcript.at_start || transcript.loading_older || transcript.items.is_empty() {
            return;
        }
        transcript.loading_older = true;
        let request = history(&key, HistorySpan::Before(transcript.start), PAGE);
        self.ask(Wanted::Older(key), request);
    }

    fn drawn(&mut self, view: super::geometry::Viewport) {
        self.sessions.top = view.list_top;
        self.set_pager_top(view.pager_top);
        let seen = view.transcript;
        self.view = view;
        let transcript = &mut self.transcript;
        if let Scroll::At { .. } = transcript.scroll {
            if let Some((position, line)) = seen.top {
                transcript.scroll = Scroll::At {
                    position,
                    line: isize::try_from(line).unwrap_or(0),
                };
            }
            if !transcript.reveal {
                transcript.keep_cursor_between(seen.first, seen.last);
            }
            if seen.at_bottom && transcript.cursor_is_last() {
                transcript.follow();
            }
        }
        transcript.reveal = false;
        let near_top = seen.at_top
            || seen
                .first
                .and_then(|position| self.transcript.index_of(position))
                .is_some_and(|index| index < NEAR_TOP);
        if near_top && seen.rows > 0 {
            self.ask_older();
        }
    }

    fn set_pager_top(&mut self, clamped: usize) {
        match self.layers.last_mut() {
            Some(Layer::Help { top }) => *top = clamped,
            Some(Layer::Details(pager) | Layer::Json(pager) | Layer::Hidden(pager)) => {
                pager.top = clamped;
            }
            Some(Layer::Spawn) => {
                if let Some(form) = &mut self.spawn {
                    form.top = clamped;
                }
            }
            _ => {}
        }
    }

    fn replied(&mut self, wanted: Wanted, reply: Reply) {
        if self.header.link == Link::Connecting {
            self.header.link = Link::Live;
        }
        match (wanted, reply) {
            (Wanted::Info, Reply::Info(info)) => {
                for warning in &info.warnings {
                    self.sessions.warnings.push(warning.clean());
                }
                self.header.info = Some(*info);
                if self.is_read_only() && self.focus == super::Focus::Compose {
                    self.focus = super::Focus::Transcript;
                }
            }
            (Wanted::List, Reply::Rows(rows)) => {
                let warnings = rows.warnings.iter().map(Untrusted::clean);
                for warning in warnings {
                    if !self.sessions.warnings.contains(&warning) {
                        self.sessions.warnings.push(warning);
                    }
                }
                self.sessions.replace(&rows.rows, self.now_ms);
                if self.transcript.key.is_none() {
                    self.open_selected();
                }
                self.show_what_moves();
                self.title();
            }
            (Wanted::Runs, Reply::Runs { runs }) => {
                self.sessions.live.clear();
                for run in runs {
                    let live = self.sessions.live.entry(run.session_key).or_default();
                    match run.state {
                        crate::model::run::RunState::Started => live.running.insert(run.run_id),
                        crate::model::run::RunState::Accepted => live.queued.insert(run.run_id),
                        crate::model::run::RunState::Ended => false,
                    };
                }
                self.drop_dead_streams();
                self.sessions.rebuild(self.now_ms);
                self.show_what_moves();
            }
            (Wanted::Tail(key), Reply::Lines(lines)) => self.tail_came(&key, lines),
            (Wanted::Older(key), Reply::Lines(lines)) => {
                if self.transcript.key.as_ref() == Some(&key) && !self.transcript.prepend(lines) {
                    self.ask_older();
                }
            }
            (Wanted::LineJson(position), Reply::Lines(lines)) => {
                self.line_json_came(position, &lines);
            }
            (Wanted::Policy(key), Reply::Detail(detail)) => self.policy_came(&key, &detail),
            (Wanted::Details(key), Reply::Detail(detail)) => {
                self.policy_came(&key, &detail);
                self.details_came(&detail);
            }
            (Wanted::Json(_), Reply::Detail(detail)) => self.json_came(&detail),
            (Wanted::Choices(key), Reply::Choices(choices)) => self.choices_came(&key, choices),
            (Wanted::Spawn, Reply::Tool { payload }) => self.spawn_answered(payload),
            (Wanted::Send(id), Reply::Accepted(accepted)) => self.send_accepted(&id, accepted),
            (Wanted::Wait(id), Reply::Waited(waited)) => self.waited(&id, waited),
            (Wanted::ToolSend(id), Reply::Tool { payload }) => {
                self.tool_send_answered(&id, payload);
            }
            (Wanted::Change(done), Reply::Done { note }) => {
                let text = note
                    .filter(|n| !n.is_blank())
                    .map_or(done, |note| note.clean());
                self.say(Tone::Good, text);
                self.ask_policy();
            }
            (Wanted::Change(done), Reply::Aborted { run_ids }) => {
                if run_ids.is_empty() {
                    self.say(Tone::Info, "nothing was running there");
                } else {
                    self.say(Tone::Good, done);
                }
            }
            (Wanted::Change(done), _) => self.say(Tone::Good, done),
            (wanted, _) => {
                let text = "the source answered something else than what was asked";
                let code = crate::protocol::methods::Code::UnknownMethod;
                self.refused(wanted, Failure::new(code, text));
            }
        }
    }

    fn refused(&mut self, wanted: Wanted, failure: Failure) {
        let text = failure.message.clean();
        match wanted {
            Wanted::List => {
                self.sessions.failure = Some(text.clone());
                self.say(Tone::Bad, text);
            }
            // A source that knows no runs shows what its rows say.
            Wanted::Runs | Wanted::Info | Wanted::Policy(_) => {}
            Wanted::Tail(key) => {
                if self.transcript.key.as_ref() == Some(&key) {
                    self.transcript.load = super::transcript::Load::Failed(text);
                }
            }
            Wanted::Older(_) => {
                self.transcript.loading_older = false;
                self.say(Tone::Bad, clean_format!("older messages: {}", text));
            }
            Wanted::Details(_) | Wanted::Json(_) | Wanted::LineJson(_) => {
                self.layers.pop();
                self.say(Tone::Bad, text);
            }
            Wanted::Choices(_) => self.spawn_trouble(text),
            Wanted::Spawn => self.spawn_trouble(text),
            Wanted::Send(id) | Wanted::ToolSend(id) => self.send_failed(&id, failure),
            Wanted::Wait(id) => self.wait_failed(&id),
            Wanted::Change(_) => self.say(Tone::Bad, text),
        }
    }

    fn backend(&mut self, event: backend::Event) {
        use backend::What as Is;
        let key = event.session_key.as_ref().map(identity);
        self.header.link = match self.header.link {
            Link::Connecting => Link::Live,
            ref link => link.clone(),
        };
        match event.what {
            Is::SessionCreated { row }
            | Is::SessionChanged { row }
            | Is::SessionArchived { row } => {
                let policy = |app: &App| app.sessions.get(&identity(&row.key))?.send_policy;
                let before = policy(self);
                self.sessions.put(&row);
                if policy(self) != before && self.transcript.key == Some(identity(&row.key)) {
                    self.ask_policy();
                }
                if self.transcript.key.is_none() {
                    self.settle();
                    self.open_soon();
                }
                self.title();
            }
            Is::SessionReset { row } => {
                self.sessions.put(&row);
                let key = identity(&row.key);
                if self.transcript.key.as_ref() == Some(&key) {
                    self.transcript.reset_to(Some(key));
                    self.reload_transcript();
                }
            }
            Is::SessionDeleted { row } => {
                let key = identity(&row.key);
                if self.sessions.selected.as_ref() == Some(&key) {
                    // The cursor goes to who is its neighbour now.
                    self.settle();
                    self.sessions.remove(&key);
                    self.settle();
                } else {
                    self.sessions.remove(&key);
                }
                if self.transcript.key.as_ref() == Some(&key) {
                    self.open_soon();
                    self.transcript.load = super::transcript::Load::Absent;
                }
            }
            Is::MessageAppended {
                message,
                position: _,
            } => {
                if key.is_some() && key == self.transcript.key {
                    self.transcript.append(&message);
                }
            }
            Is::RunAccepted { queued_behind, .. } => {
                if let (Some(key), Some(run)) = (key, event.run_id) {
                    self.run_accepted(key, run, queued_behind);
                }
            }
            Is::RunStarted { .. } => {
                if let (Some(key), Some(run)) = (key, event.run_id) {
                    self.run_started(key, run, event.at);
                }
            }
            Is::RunDelta {
                text,
                delta,
                thinking,
            } => {
                if let Some(run) = event
                    .run_id
                    .filter(|_| key.is_some() && key == self.transcript.key)
                {
                    self.transcript.delta(&run, text, delta, thinking, event.at);
                }
            }
            Is::RunTool {
                name,
                call_id,
                phase,
            } => {
                if let Some(run) = event
                    .run_id
                    .filter(|_| key.is_some() && key == self.transcript.key)
                {
                    self.transcript.tool(&run, name, call_id, phase, event.at);
                }
            }
            Is::RunEnded { outcome, error, .. } => {
                if let (Some(key), Some(run)) = (key, event.run_id) {
                    self.run_ended(&key, &run, outcome, error, event.at);
                }
            }
            Is::SendState {
                send_id,
                state,
                reply,
                error,
                ..
            } => {
                self.send_state(&send_id, event.run_id, state, reply, error);
            }
            Is::A2aTurn { turn, limit, .. } => {
                if let Some(run) = event.run_id {
                    self.transcript.rounds.insert(run, (turn, limit));
                }
            }
            Is::Announce { .. } | Is::Spawn { .. } => {}
            Is::Loop { path, turns } => {
                let names: Vec<Clean> = path
                    .iter()
                    .map(|key| self.sessions.name(&identity(key)))
                    .collect();
                let names = join(&names, " → ");
                self.say(
                    Tone::Bad,
                    clean_format!("agents go in circles: {} ({} turns)", names, turns),
                );
            }
            Is::Connection {
                state,
                attempt,
                next_try_at,
                reason,
                ..
            } => {
                self.header.link = match state {
                    ConnectionState::Connected => Link::Live,
                    ConnectionState::Reconnecting => Link::Reconnecting {
                        attempt: attempt.unwrap_or(1),
                        next_try_at,
                        reason,
                    },
                    ConnectionState::Offline => Link::Offline {
                        since: event.at,
                        reason,
                    },
                };
            }
            Is::Resync {} => {
                self.drop_dead_streams();
                self.ask(Wanted::Info, Request::Info {});
                self.reload_list();
                self.reload_transcript();
                self.ask_after_open_sends();
            }
        }
    }

    /// Whatever wrote when its owner was killed writes no more, though no event says so.
    fn drop_dead_streams(&mut self) {
        let live = self
            .transcript
            .key
            .as_ref()
            .and_then(|key| self.sessions.live.get(key));
        self.transcript.keep_streams(|run| {
            live.is_some_and(|live| live.running.contains(run) || live.queued.contains(run))
        });
    }

    fn run_accepted(&mut self, key: SessionKey, run: String, queued_behind: Option<u32>) {
        let live = self.sessions.live.entry(key).or_default();
        if !live.running.contains(&run) {
            live.queued.insert(run.clone());
        }
        self.sessions.states_changed();
        self.send_queued(&run, queued_behind);
    }

    fn run_started(&mut self, key: SessionKey, run: String, at: i64) {
        if self.transcript.key.as_ref() == Some(&key) {
            self.transcript.stream(&run, at);
        }
        let live = self.sessions.live.entry(key).or_default();
        live.queued.remove(&run);
        live.running.insert(run.clone());
        self.sessions.states_changed();
        self.send_running(&run);
        self.show_what_moves();
    }

    /// A browser that was just opened shows what goes on, once, unless a person has chosen something.
    pub(super) fn show_what_moves(&mut self) {
        if !self.untouched || !self.sessions.loaded {
            return;
        }
        self.settle();
        let pane = &self.sessions;
        let running = pane.live.iter().filter(|(_, l)| !l.running.is_empty());
        let first = running
            .filter_map(|(key, _)| Some((pane.line_of(key)?, key)))
            .min_by_key(|(line, _)| *line);
        let Some(key) = first.map(|(_, key)| key.clone()) else {
            return;
        };
        self.untouched = false;
        self.sessions.reveal(&key, self.now_ms);
        self.open_selected();
    }

    fn run_ended(
        &mut self,
        key: &SessionKey,
        run: &str,
        outcome: crate::model::run::Outcome,
        error: Option<Untrusted>,
        at: i64,
    ) {
        if let Some(live) = self.sessions.live.get_mut(key) {
            live.queued.remove(run);
            live.running.remove(run);
            if live.queued.is_empty() && live.running.is_empty() {
                self.sessions.live.remove(key);
            }
        }
        self.sessions.ended(key, outcome);
        self.sessions.states_changed();
        if self.transcript.key.as_ref() == Some(key) {
            self.transcript.run_ended(run, outcome, error.clone(), at);
        }
        self.send_ended(run, outcome, error);
    }
}

/// Milliseconds of one step of what turns.
pub const SPIN_MS: i64 = 125;

/// A key as it is asked for.
pub(super) fn wire(key: &SessionKey) -> Untrusted {
    Untrusted::new(key.as_str())
}

fn history(key: &SessionKey, span: HistorySpan, limit: usize) -> Request {
    Request::History(HistoryRequest {
        key: wire(key),
        span,
        limit: Some(limit),
    })
}

/// Clean texts with something between.
pub(super) fn join(parts: &[Clean], between: &'static str) -> Clean {
    let mut all = Clean::empty();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            all.push(&Clean::fixed(between));
        }
        all.push(part);
    }
    all
}
