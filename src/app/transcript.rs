//! The transcript pane: messages of one session, growing at the end and, on demand, at the start.
//!
//! Invariant: cursor and scroll are positions of messages, never indices or screen rows; heights are not known here.

use super::update::{Wanted, wire};
use super::{App, Focus, Layer, Prompt, Purpose, Tone, draft::Draft};
use crate::clean_format;
use crate::model::event::ToolPhase;
use crate::model::key::SessionKey;
use crate::model::message::{Block, Content, Message, RawLine, Role, Said};
use crate::model::run::{Outcome, RunId};
use crate::model::session::SendPolicy;
use crate::protocol::methods::{Detail, HistoryRequest, HistorySpan, Lines, Request};
use crate::text::{Clean, Untrusted};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The pane.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Whose messages; `None`: nothing is open.
    pub key: Option<SessionKey>,
    pub load: Load,
    /// In file order, positions rising.
    pub items: Vec<Message>,
    /// Where older messages begin; where growth goes on.
    pub start: u64,
    pub end: u64,
    pub at_start: bool,
    pub loading_older: bool,
    /// Position of the message under the cursor.
    pub cursor: Option<u64>,
    pub scroll: Scroll,
    /// Bring the cursor's message into view at the next frame, moving as little as possible.
    pub reveal: bool,
    /// Messages that came while the reader was elsewhere.
    pub new_below: usize,
    pub show_tools: bool,
    pub show_reasoning: bool,
    pub raw: bool,
    pub show_secrets: bool,
    /// Messages whose folding differs from what the toggles say.
    pub toggled: HashSet<u64>,
    /// Answers that are being written, in order of their start.
    pub streams: Vec<Stream>,
    /// Runs that did not end well, by where they ended.
    pub endings: Vec<Ending>,
    pub search: Option<Search>,
    /// Changes whenever older drawings of this transcript are worthless (another session, a reset).
    pub generation: u64,
    /// Where the wire was followed from, innermost last: session and message.
    pub wire: Vec<(SessionKey, Option<u64>)>,
    /// What to put the cursor on once the messages are there.
    pub(super) seek: Option<Seek>,
    /// Turn and limit of runs of the reply-back loop, as far as they were seen live.
    pub rounds: HashMap<RunId, (u32, u32)>,
    /// Send policy that holds, and where it comes from.
    pub policy: Option<(SendPolicy, Clean)>,
}

/// A message to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seek {
    Position(u64),
    /// The last message that holds this text, in a message or in the arguments of a tool call.
    Text(Untrusted),
}

/// How far loading is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    Nothing,
    /// Asked for the end.
    Loading,
    Ready,
    /// There is no such session (H-12).
    Absent,
    Failed(Clean),
}

/// What of the transcript is on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scroll {
    /// The end, whatever comes.
    #[default]
    Follow,
    /// `line` of the message at `position` is the first on the screen. Lines may be negative or beyond the message's
    /// height: the drawing goes on into its neighbours and tells where it came out.
    At { position: u64, line: isize },
}

/// An answer that is being written.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub run_id: RunId,
    /// The whole text so far.
    pub text: Untrusted,
    pub thinking: Option<Untrusted>,
    /// Tools this run has called, with where each stands.
    pub tools: Vec<(Untrusted, Untrusted, ToolPhase)>,
    pub started_at: i64,
    /// Rises with every change.
    pub revision: u64,
}

/// A run that failed, was aborted, was cut off or ran out of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub run_id: RunId,
    /// Drawn after the message at this position; `None`: at the start.
    pub after: Option<u64>,
    pub outcome: Outcome,
    pub error: Option<Untrusted>,
    pub at: i64,
}

/// A search in what is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    pub text: Untrusted,
    /// Positions of messages that hold it, rising.
    pub hits: Vec<u64>,
}

impl Transcript {
    /// The message is shown under the toggles.
    pub fn is_shown(&self, message: &Message) -> bool {
        if self.raw || self.show_tools || self.toggled.contains(&message.position) {
            return true;
        }
        match &message.content {
            Content::Said(said) if said.role == Role::ToolResult => false,
            Content::Said(said) => {
                self.show_reasoning
                    || said.blocks.is_empty()
                    || said.error.is_some()
                    || said
                        .blocks
                        .iter()
                        .any(|block| !matches!(block, Block::Thinking(_)))
            }
            _ => true,
        }
    }

    /// What is shown, in order.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.items.iter().filter(|message| self.is_shown(message))
    }

    /// Index of a position in `items`.
    pub fn index_of(&self, position: u64) -> Option<usize> {
        self.items
            .binary_search_by_key(&position, |message| message.position)
            .ok()
    }

    /// The message under the cursor.
    pub fn current(&self) -> Option<&Message> {
        self.items.get(self.index_of(self.cursor?)?)
    }

    /// Lines that could not be read.
    pub fn damaged(&self) -> usize {
        self.items
            .iter()
            .filter(|message| matches!(message.content, Content::Damage { .. }))
            .count()
    }

    /// The reader stays at the end.
    pub fn is_following(&self) -> bool {
        self.scroll == Scroll::Follow
    }
}

impl Transcript {
    /// Empties it for another session (or a new transcript of the same); the toggles stay.
    pub(super) fn reset_to(&mut self, key: Option<SessionKey>) {
        *self = Transcript {
            key,
            show_tools: self.show_tools,
            show_reasoning: self.show_reasoning,
            raw: self.raw,
            generation: self.generation + 1,
            wire: std::mem::take(&mut self.wire),
            ..Transcript::default()
        };
    }

    /// Puts a line at its place; what is there already stays.
    pub(super) fn append(&mut self, raw: &RawLine) {
        let Some(message) = Message::read(raw) else {
            return;
        };
        let place = self
            .items
            .binary_search_by_key(&message.position, |item| item.position);
        let Err(at) = place else {
            // A line that was torn when it was read is whole now.
            if let Ok(at) = place
                && matches!(self.items[at].content, Content::Damage { .. })
            {
                self.items[at] = message;
            }
            return;
        };
        self.settle(&message);
        self.end = self.end.max(raw.position + raw.bytes + 1);
        let is_new_below = at == self.items.len() && self.is_shown(&message);
        let follows = self.is_following();
        self.items.insert(at, message);
        if follows {
            self.cursor_to_last();
        } else if is_new_below {
            self.new_below += 1;
        }
        self.find_hits();
    }

    /// What was streamed is in the transcript now.
    fn settle(&mut self, message: &Message) {
        let Some(said) = message.said().filter(|said| said.role == Role::Assistant) else {
            return;
        };
        let run = said.run_id.as_ref().map(Untrusted::raw);
        for stream in &mut self.streams {
            if run.is_none_or(|run| run == stream.run_id) {
                stream.text = Untrusted::default();
                stream.thinking = None;
                stream.revision += 1;
            }
        }
    }

    /// Puts older lines in front; false when there was nothing to show in them and more to come.
    pub(super) fn prepend(&mut self, lines: Lines) -> bool {
        self.loading_older = false;
        self.start = lines.start.min(self.start);
        // A page that does not get anywhere is the first one, whatever it says.
        self.at_start = lines.at_start || lines.lines.is_empty();
        let first = self.items.first().map_or(u64::MAX, |item| item.position);
        let older: Vec<Message> = lines
            .lines
            .iter()
            .filter_map(Message::read)
            .filter(|message| message.position < first)
            .collect();
        let has_some = !older.is_empty();
        self.items.splice(0..0, older);
        self.find_hits();
        has_some || self.at_start
    }

    /// The end came. What came by itself meanwhile stays; what does not fit any more is replaced.
    fn merge_tail(&mut self, lines: &Lines) {
        let page: Vec<Message> = lines.lines.iter().filter_map(Message::read).collect();
        let is_same = self.items.iter().all(|item| {
            item.position < lines.start
                || item.position >= lines.end
                || page
                    .iter()
                    .any(|new| new.position == item.position && new.id == item.id)
        });
        let connects = self.end >= lines.start && !self.items.is_empty() && is_same;
        if connects && self.load == Load::Ready {
            self.items
                .retain(|item| item.position < lines.start || item.position >= lines.end);
        } else {
            self.items
                .retain(|item| item.position >= lines.end && is_same);
            self.start = lines.start;
            self.at_start = lines.at_start;
        }
        self.items.extend(page);
        self.items.sort_by_key(|item| item.position);
        self.end = self.end.max(lines.end);
        self.load = if lines.exists || !self.items.is_empty() {
            Load::Ready
        } else {
            Load::Absent
        };
        if self.is_following() || self.current().is_none() {
            self.cursor_to_last();
        }
        self.find_hits();
    }

    fn cursor_to_last(&mut self) {
        let last = self.shown().next_back().map(|message| message.position);
        self.cursor = last;
    }

    pub(super) fn cursor_is_last(&self) -> bool {
        self.cursor.is_some() && self.cursor == self.shown().next_back().map(|m| m.position)
    }

    /// Stays at the end from now on.
    pub(super) fn follow(&mut self) {
        self.scroll = Scroll::Follow;
        self.new_below = 0;
        self.reveal = false;
        self.cursor_to_last();
    }

    pub(super) fn keep_cursor_between(&mut self, first: Option<u64>, last: Option<u64>) {
        if let (Some(cursor), Some(first), Some(last)) = (self.cursor, first, last)
            && first <= last
        {
            self.cursor = Some(cursor.clamp(first, last));
        }
    }

    /// The answer of a run being written, made when it is not there.
    pub(super) fn stream(&mut self, run: &str, at: i64) -> &mut Stream {
        let index = match self.streams.iter().position(|s| s.run_id == run) {
            Some(index) => index,
            None => {
                self.streams.push(Stream {
                    run_id: run.to_owned(),
                    text: Untrusted::default(),
                    thinking: None,
                    tools: Vec::new(),
                    started_at: at,
                    revision: 0,
                });
                self.streams.len() - 1
            }
        };
        &mut self.streams[index]
    }

    /// Drops what was written by runs that are gone; how they ended stands in the transcript.
    pub(super) fn keep_streams(&mut self, is_live: impl Fn(&str) -> bool) {
        self.streams.retain(|stream| is_live(&stream.run_id));
    }

    pub(super) fn delta(
        &mut self,
        run: &str,
        text: Option<Untrusted>,
        delta: Option<Untrusted>,
        thinking: Option<Untrusted>,
        at: i64,
    ) {
        let stream = self.stream(run, at);
        match (text, delta) {
            (Some(text), _) => stream.text = text,
            (None, Some(delta)) => {
                let mut whole = std::mem::take(&mut stream.text).into_raw();
                whole.push_str(delta.raw());
                stream.text = whole.into();
            }
            (None, None) => {}
        }
        if thinking.is_some() {
            stream.thinking = thinking;
        }
        stream.revision += 1;
    }

    pub(super) fn tool(
        &mut self,
        run: &str,
        name: Untrusted,
        call_id: Untrusted,
        phase: ToolPhase,
        at: i64,
    ) {
        let stream = self.stream(run, at);
        match stream.tools.iter_mut().find(|(_, id, _)| *id == call_id) {
            Some(tool) => tool.2 = phase,
            None => stream.tools.push((name, call_id, phase)),
        }
        stream.revision += 1;
    }

    pub(super) fn run_ended(
        &mut self,
        run: &str,
        outcome: Outcome,
        error: Option<Untrusted>,
        at: i64,
    ) {
        self.streams.retain(|stream| stream.run_id != run);
        self.rounds.remove(run);
        if outcome != Outcome::Ok {
            self.endings.push(Ending {
                run_id: run.to_owned(),
                after: self.items.last().map(|message| message.position),
                outcome,
                error,
                at,
            });
        }
    }

    /// Moves the cursor over what is shown.
    fn step(&mut self, by: isize) {
        let shown: Vec<u64> = self.shown().map(|message| message.position).collect();
        let Some(last) = shown.len().checked_sub(1) else {
            return;
        };
        let at = self.cursor.map_or(last, |cursor| {
            shown
                .partition_point(|position| *position < cursor)
                .min(last)
        });
        let to = at.saturating_add_signed(by).min(last);
        self.go(shown[to]);
    }

    /// Puts the cursor on a message and brings it into view.
    pub(super) fn go(&mut self, position: u64) {
        self.cursor = Some(position);
        if self.is_following() && self.cursor_is_last() {
            return;
        }
        self.leave_end();
        self.reveal = true;
    }

    fn leave_end(&mut self) {
        if self.is_following() {
            // The drawing starts from the end and moves as little as needed.
            let position = self.items.last().map_or(0, |message| message.position);
            self.scroll = Scroll::At { position, line: 0 };
        }
    }

    fn find_hits(&mut self) {
        let Some(search) = &self.search else { return };
        let needle = search.text.raw().to_lowercase();
        let hits = self
            .items
            .iter()
            .filter(|message| self.is_shown(message) && holds(message, &needle))
            .map(|message| message.position)
            .collect();
        if let Some(search) = &mut self.search {
            search.hits = hits;
        }
    }
}

/// The message holds the text (in lower case), ignoring case.
fn holds(message: &Message, needle: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(needle);
    match &message.content {
        Content::Said(said) => said.blocks.iter().any(|block| match block {
            Block::Text(text) | Block::Thinking(text) => has(text.raw()),
            Block::ToolCall {
                name, arguments, ..
            } => has(name.raw()) || has(&arguments.to_string()),
            Block::Image { .. } | Block::Unknown { .. } => false,
        }),
        Content::Note { kind, text } => has(kind.raw()) || has(text.raw()),
        Content::Damage { .. } => false,
    }
}

/// Goes between sessions: came from one, or sends to one.
fn is_inter(message: &Message) -> bool {
    message
        .said()
        .is_some_and(|said| said.is_inter_session() || sent_to(said).is_some())
}

/// The target and text of a `sessions_send` or `sessions_spawn` in a message.
fn sent_to(said: &Said) -> Option<(Option<&str>, &str)> {
    said.blocks.iter().find_map(|block| {
        let Block::ToolCall {
            name, arguments, ..
        } = block
        else {
            return None;
        };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        match name.raw() {
            "sessions_send" => Some((
                text("sessionKey").or_else(|| text("label")),
                text("message")?,
            )),
            "sessions_spawn" => Some((None, text("task")?)),
            _ => None,
        }
    })
}

impl App {
    pub(super) fn tail_came(&mut self, key: &SessionKey, lines: Lines) {
        if self.transcript.key.as_ref() != Some(key) {
            return;
        }
        self.transcript.merge_tail(&lines);
        self.apply_seek();
    }

    fn apply_seek(&mut self) {
        if self.transcript.load != Load::Ready {
            return;
        }
        match self.transcript.seek.take() {
            Some(Seek::Position(position)) if self.transcript.index_of(position).is_some() => {
                self.transcript.go(position);
            }
            Some(Seek::Position(_)) | None => {}
            Some(Seek::Text(text)) => {
                let needle = text.raw().trim().to_lowercase();
                let found = self
                    .transcript
                    .items
                    .iter()
                    .rev()
                    .find(|message| holds(message, &needle))
                    .map(|message| message.position);
                match found {
                    Some(position) => self.transcript.go(position),
                    None => self.say(Tone::Info, "the other end of the wire is further up"),
                }
            }
        }
    }

    pub(super) fn policy_came(&mut self, key: &SessionKey, detail: &Detail) {
        if self.transcript.key.as_ref() == Some(key) {
            let source = Untrusted::new(detail.send_policy_source.as_str()).clean();
            let was_denied = matches!(self.transcript.policy, Some((SendPolicy::Deny, _)));
            self.transcript.policy = Some((detail.send_policy, source));
            // Why sends failed while they were denied does not hold any more.
            if was_denied && detail.send_policy == SendPolicy::Allow {
                self.compose.failure = None;
            }
        }
    }

    /// `j` and `k`: to the next message, or on in one that does not fit.
    pub(super) fn transcript_step(&mut self, down: bool) {
        let seen = self.view.transcript;
        let is_cut = if down {
            seen.last_cut && self.transcript.cursor == seen.last
        } else {
            seen.first_cut && self.transcript.cursor == seen.first
        };
        if is_cut {
            // Half of what is seen stays in sight.
            let rows = isize::try_from(seen.rows / 2).unwrap_or(1).max(1);
            self.transcript_scroll(if down { rows } else { -rows });
        } else if down && self.transcript.cursor_is_last() {
            self.transcript.follow();
        } else {
            self.transcript.step(if down { 1 } else { -1 });
        }
        if !down && self.transcript.cursor == self.transcript.shown().next().map(|m| m.position) {
            self.ask_older();
        }
    }

    /// Scrolls by lines; negative is up.
    pub(super) fn transcript_scroll(&mut self, lines: isize) {
        let seen = self.view.transcript;
        if lines > 0 && (self.transcript.is_following() || seen.at_bottom) {
            self.transcript.follow();
            return;
        }
        let from = match (self.transcript.scroll, seen.top) {
            (Scroll::At { position, line }, _) => Some((position, line)),
            (Scroll::Follow, Some((position, line))) => {
                Some((position, isize::try_from(line).unwrap_or(0)))
            }
            (Scroll::Follow, None) => None,
        };
        if let Some((position, line)) = from {
            self.transcript.scroll = Scroll::At {
                position,
                line: line.saturating_add(lines),
            };
            self.transcript.reveal = false;
        }
    }

    pub(super) fn transcript_first(&mut self) {
        let first = self.transcript.shown().next().map(|m| m.position);
        if let Some(position) = first {
            self.transcript.scroll = Scroll::At { position, line: 0 };
            self.transcript.cursor = Some(position);
            self.transcript.reveal = true;
        }
        self.ask_older();
    }

    pub(super) fn toggle_shown(&mut self, what: fn(&mut Transcript) -> &mut bool) {
        let follows = self.transcript.is_following();
        let flag = what(&mut self.transcript);
        *flag = !*flag;
        // The cursor's message may be hidden now: the nearest one above takes its place.
        let transcript = &mut self.transcript;
        if follows {
            transcript.cursor_to_last();
        } else if let Some(cursor) = transcript.cursor {
            let above = transcript
                .shown()
                .take_while(|m| m.position <= cursor)
                .last();
            let nearest = above
                .or_else(|| transcript.shown().next())
                .map(|m| m.position);
            transcript.cursor = nearest;
            transcript.reveal = true;
        }
        transcript.find_hits();
    }

    /// Opens or folds what is under the cursor, with the results of its tool calls.
    pub(super) fn transcript_open(&mut self) {
        let transcript = &mut self.transcript;
        let Some(index) = transcript
            .cursor
            .and_then(|cursor| transcript.index_of(cursor))
        else {
            return;
        };
        let position = transcript.items[index].position;
        let opens = !transcript.toggled.contains(&position);
        let is_result = |message: &Message| {
            message
                .said()
                .is_some_and(|said| said.role == Role::ToolResult)
        };
        let results = transcript.items[index + 1..]
            .iter()
            .take_while(|message| is_result(message))
            .map(|message| message.position);
        let positions: Vec<u64> = std::iter::once(position).chain(results).collect();
        for position in positions {
            if opens {
                transcript.toggled.insert(position);
            } else {
                transcript.toggled.remove(&position);
            }
        }
        if transcript.is_following() {
            transcript.leave_end();
        }
        transcript.reveal = true;
    }

    /// The message at the other end: where it came from, or where it went.
    pub(super) fn follow_wire(&mut self) {
        let Some(from) = self.transcript.key.clone() else {
            return;
        };
        let end = self
            .transcript
            .current()
            .and_then(Message::said)
            .and_then(|said| {
                let source = said
                    .provenance
                    .as_ref()
                    .and_then(|p| p.source_session_key.clone());
                match source {
                    Some(source) if said.is_inter_session() => {
                        Some((self.resolve(source.raw(), &from), said.text()))
                    }
                    _ => {
                        let (target, text) = sent_to(said)?;
                        let target = match target {
                            Some(target) => self.resolve(target, &from),
                            None => self.child_with(&from, text),
                        };
                        Some((target, text.to_owned()))
                    }
                }
            });
        match end {
            Some((Some(peer), text)) => {
                let cursor = self.transcript.cursor;
                self.transcript.wire.push((from, cursor));
                self.go_to(&peer, Some(Seek::Text(text.into())));
            }
            Some((None, _)) => self.say(Tone::Info, "the other session is not in the list"),
            None => self.say(Tone::Info, "no wire leads from this message"),
        }
    }

    pub(super) fn wire_back(&mut self) {
        match self.transcript.wire.pop() {
            Some((key, position)) => self.go_to(&key, position.map(Seek::Position)),
            None => self.say(Tone::Info, "no wire was followed"),
        }
    }

    /// Opens a session in the transcript pane, selects it in the list.
    pub(super) fn go_to(&mut self, key: &SessionKey, seek: Option<Seek>) {
        self.sessions.reveal(key, self.now_ms);
        self.open_due_at = None;
        self.open(key);
        self.transcript.seek = seek;
        self.focus = Focus::Transcript;
        self.apply_seek();
    }

    /// A session as an agent names it: key, `main`, short form, id or label.
    fn resolve(&self, name: &str, from: &SessionKey) -> Option<SessionKey> {
        let key = SessionKey::foreign(name);
        if self.sessions.get(&key).is_some() {
            return Some(key);
        }
        let agent = from.agent()?;
        let own = SessionKey::of(&agent, name);
        if self.sessions.get(&own).is_some() {
            return Some(own);
        }
        let label = |s: &&super::sessions::Session| s.label().is_some_and(|l| l.as_str() == name);
        let labelled = self.sessions.iter().find(label).map(|s| s.key.clone());
        let main = (name == "main").then(SessionKey::global);
        labelled.or(main.filter(|key| self.sessions.get(key).is_some()))
    }

    fn child_with(&self, parent: &SessionKey, task: &str) -> Option<SessionKey> {
        let task = task.trim();
        let mut children: Vec<_> = self
            .sessions
            .children(parent)
            .filter(|s| s.spawned)
            .collect();
        children.sort_by_key(|s| std::cmp::Reverse(s.updated_at));
        let titled = children.iter().find(|s| {
            s.title()
                .is_some_and(|title| task.starts_with(title.as_str().trim_end_matches('…').trim()))
        });
        titled.or(children.first()).map(|s| s.key.clone())
    }

    /// To the next or previous message between sessions.
    pub(super) fn go_inter(&mut self, forward: bool) {
        let cursor = self.transcript.cursor.unwrap_or(0);
        let inter: Vec<u64> = self
            .transcript
            .shown()
            .filter(|message| is_inter(message))
            .map(|message| message.position)
            .collect();
        let found = if forward {
            inter.into_iter().find(|position| *position > cursor)
        } else {
            inter.into_iter().rfind(|position| *position < cursor)
        };
        match found {
            Some(position) => self.transcript.go(position),
            None if !forward && !self.transcript.at_start => self.ask_older(),
            None => self.say(Tone::Info, "no more messages between sessions this way"),
        }
    }

    pub(super) fn ask_search(&mut self) {
        let text = self
            .transcript
            .search
            .as_ref()
            .map(|s| s.text.clone())
            .unwrap_or_default();
        let mut draft = Draft::line(&text);
        draft.edit(super::draft::Edit::End);
        self.layers.push(Layer::Prompt(Prompt {
            title: "Search here".into(),
            draft,
            purpose: Purpose::Search,
            error: None,
        }));
    }

    pub(super) fn search(&mut self, text: Untrusted) {
        if text.is_blank() {
            self.transcript.search = None;
            return;
        }
        self.transcript.search = Some(Search {
            text,
            hits: Vec::new(),
        });
        self.transcript.find_hits();
        let Some(search) = &self.transcript.search else {
            return;
        };
        let hits = search.hits.len();
        if hits == 0 {
            let more = if self.transcript.at_start {
                ""
            } else {
                " in what is loaded"
            };
            let text = clean_format!("\"{}\" is not here{}", search.text.clean(), more);
            self.say(Tone::Info, text);
        } else {
            // The newest hit first: the reader usually stands at the end.
            let cursor = self.transcript.cursor.unwrap_or(u64::MAX);
            let at = search.hits.partition_point(|hit| *hit <= cursor);
            let hit = search.hits[at.saturating_sub(1)];
            self.transcript.go(hit);
            self.say(
                Tone::Info,
                clean_format!("{} messages hold it; n and N go through them", hits),
            );
        }
    }

    pub(super) fn search_step(&mut self, forward: bool) {
        let Some(search) = &self.transcript.search else {
            return self.ask_search();
        };
        let cursor = self.transcript.cursor.unwrap_or(0);
        let hits = &search.hits;
        let found = if forward {
            hits.iter().find(|hit| **hit > cursor)
        } else {
            hits.iter().rev().find(|hit| **hit < cursor)
        };
        match found.copied() {
            Some(hit) => self.transcript.go(hit),
            None if !forward && !self.transcript.at_start => {
                self.ask_older();
                self.say(Tone::Info, "looking further up: again for the next hit");
            }
            None => self.say(Tone::Info, "no more hits this way"),
        }
    }

    pub(super) fn copy_message(&mut self) {
        let text = match self.transcript.current().map(|message| &message.content) {
            Some(Content::Said(said)) => Untrusted::new(said.text()),
            Some(Content::Note { text, .. }) => text.clone(),
            _ => return self.say(Tone::Info, "there is no message to copy"),
        };
        let text = match self.masker.mask(text.raw()) {
            Some(masked) if !self.transcript.show_secrets => Untrusted::new(masked),
            _ => text,
        };
        if text.is_blank() {
            return self.say(Tone::Info, "the message has no text to copy");
        }
        self.out
            .push(super::effect::Effect::Copy(text.clean_block()));
        self.say(Tone::Good, "message copied");
    }

    /// Asks for the message under the cursor as it is stored.
    pub(super) fn ask_line_json(&mut self) {
        let Some(key) = self.transcript.key.clone() else {
            return;
        };
        let Some(index) = self
            .transcript
            .cursor
            .and_then(|c| self.transcript.index_of(c))
        else {
            return;
        };
        let position = self.transcript.items[index].position;
        let before = self
            .transcript
            .items
            .get(index + 1)
            .map_or(self.transcript.end, |next| next.position);
        self.layers.push(Layer::Json(super::details::Pager {
            title: "Message as stored".into(),
            loading: true,
            ..super::details::Pager::default()
        }));
        let request = Request::History(HistoryRequest {
            key: wire(&key),
            span: HistorySpan::Before(before),
            // A few, for the lines between that are no messages.
            limit: Some(4),
        });
        self.ask(Wanted::LineJson(position), request);
    }

    pub(super) fn line_json_came(&mut self, position: u64, lines: &Lines) {
        let line = lines.lines.iter().find(|line| line.position == position);
        let shown = match line {
            Some(line) => self.json_lines(&line.line),
            None => vec![super::details::PagerLine::Text(
                "the line is not there any more".into(),
            )],
        };
        if let Some(Layer::Json(pager)) = self.layers.last_mut() {
            pager.loading = false;
            pager.lines = shown;
        }
    }
}
