//! The spawn dialog: a form with every parameter of `sessions_spawn` (chapter 8), kept until a spawn succeeds.

use super::draft::{Draft, Edit};
use super::effect::Effect;
use super::sessions::identity;
use super::update::Wanted;
use super::{App, Focus, Layer, Tone};
use crate::clean_format;
use crate::model::key::SessionKey;
use crate::protocol::methods::{Choices, Request};
use crate::text::{Clean, Untrusted};
use base64::Engine as _;
use serde_json::{Map, Value, json};

/// The form.
#[derive(Debug, Clone)]
pub struct SpawnForm {
    /// The requester: the child's parent.
    pub parent: SessionKey,
    pub task: Draft,
    pub agent: Choice,
    pub label: Draft,
    pub model: Choice,
    pub thinking: Choice,
    /// Seconds; blank or 0 is none.
    pub run_limit: Draft,
    pub cleanup: Choice,
    pub mode: Choice,
    pub thread: Choice,
    pub sandbox: Choice,
    pub attachments: Vec<Attachment>,
    /// The attachment that is taken away next, as an index.
    pub file: usize,
    /// Path being typed for one more attachment.
    pub attach: Draft,
    pub field: Field,
    /// What is wrong, with the field it belongs to where it is known.
    pub errors: Vec<(Option<Field>, Clean)>,
    /// What the backend offers; `None` while it is asked.
    pub offered: Option<Choices>,
    /// Where the report will land.
    pub report_to: Clean,
    /// Sent; the answer is awaited.
    pub busy: bool,
    /// First line on the screen of a dialog that scrolls.
    pub top: usize,
}

/// Fields in the order of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Task,
    Agent,
    Label,
    Model,
    Thinking,
    RunLimit,
    Cleanup,
    Mode,
    Thread,
    Sandbox,
    Attach,
}

impl Field {
    /// In order.
    pub const ALL: [Field; 11] = [
        Field::Task,
        Field::Agent,
        Field::Label,
        Field::Model,
        Field::Thinking,
        Field::RunLimit,
        Field::Cleanup,
        Field::Mode,
        Field::Thread,
        Field::Sandbox,
        Field::Attach,
    ];
    /// The label.
    pub const fn words(self) -> &'static str {
        match self {
            Field::Task => "Task",
            Field::Agent => "Agent",
            Field::Label => "Label",
            Field::Model => "Model",
            Field::Thinking => "Thinking",
            Field::RunLimit => "Run limit",
            Field::Cleanup => "Cleanup",
            Field::Mode => "Mode",
            Field::Thread => "Thread",
            Field::Sandbox => "Sandbox",
            Field::Attach => "Attachments",
        }
    }
}

/// One of several values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    pub options: Vec<Offer>,
    pub chosen: usize,
}

/// A value that can, or cannot, be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// What is sent; `None` leaves the parameter out.
    pub value: Option<String>,
    pub label: Clean,
    /// Why it cannot be chosen.
    pub blocked: Option<Clean>,
}

/// A file that goes with the task.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    pub path: String,
    pub name: Clean,
    pub state: AttachmentState,
}

/// How far reading is.
#[derive(Debug, Clone, PartialEq)]
pub enum AttachmentState {
    Reading,
    Read(Vec<u8>),
    Failed(Clean),
}

impl Choice {
    /// The value that is chosen.
    pub fn current(&self) -> Option<&Offer> {
        self.options.get(self.chosen)
    }
    /// What is sent.
    pub fn value(&self) -> Option<&str> {
        self.current()?.value.as_deref()
    }
}

impl SpawnForm {
    /// The choice of a field, when it is one.
    pub fn choice(&self, field: Field) -> Option<&Choice> {
        Some(match field {
            Field::Agent => &self.agent,
            Field::Model => &self.model,
            Field::Thinking => &self.thinking,
            Field::Cleanup => &self.cleanup,
            Field::Mode => &self.mode,
            Field::Thread => &self.thread,
            Field::Sandbox => &self.sandbox,
            Field::Task | Field::Label | Field::RunLimit | Field::Attach => return None,
        })
    }

    /// The text of a field, when it is typed.
    pub fn draft(&self, field: Field) -> Option<&Draft> {
        Some(match field {
            Field::Task => &self.task,
            Field::Label => &self.label,
            Field::RunLimit => &self.run_limit,
            Field::Attach => &self.attach,
            _ => return None,
        })
    }

    /// Texts of a field's errors.
    pub fn errors_of(&self, field: Field) -> impl Iterator<Item = &Clean> {
        self.errors
            .iter()
            .filter(move |(at, _)| *at == Some(field))
            .map(|(_, text)| text)
    }

    /// The task as it will be sent.
    pub fn task_text(&self) -> Untrusted {
        self.task.text()
    }
}

/// P-33.
const LEVELS: [&str; 7] = [
    "off", "minimal", "low", "medium", "high", "xhigh", "adaptive",
];
/// T-3.
const MAX_FILES: usize = 50;

impl Offer {
    fn fixed(value: &'static str) -> Self {
        Self {
            value: Some(value.to_owned()),
            label: value.into(),
            blocked: None,
        }
    }
    fn none(label: impl Into<Clean>) -> Self {
        Self {
            value: None,
            label: label.into(),
            blocked: None,
        }
    }
    fn text(value: &str) -> Self {
        Self {
            value: Some(value.to_owned()),
            label: Untrusted::new(value).clean(),
            blocked: None,
        }
    }
    fn blocked(mut self, why: Option<Clean>) -> Self {
        self.blocked = why;
        self
    }
}

impl Choice {
    fn new(options: Vec<Offer>) -> Self {
        Self { options, chosen: 0 }
    }
    /// Other options; what was chosen stays chosen when it is still there.
    fn replace(&mut self, options: Vec<Offer>) {
        let value = self.value().map(str::to_owned);
        self.chosen = options
            .iter()
            .position(|offer| offer.value == value)
            .unwrap_or(0);
        self.options = options;
    }
    /// To the next one that can be chosen.
    fn step(&mut self, forward: bool) {
        let count = self.options.len();
        for away in 1..count {
            let away = if forward { away } else { count - away };
            let at = (self.chosen + away) % count;
            if self.options[at].blocked.is_none() {
                self.chosen = at;
                return;
            }
        }
    }
}

impl SpawnForm {
    fn new(parent: SessionKey, task: &Untrusted) -> Self {
        let blank = || Draft::line(&Untrusted::default());
        Self {
            parent,
            task: Draft::new(task),
            agent: Choice::new(vec![Offer::none("own")]),
            label: blank(),
            model: Choice::new(vec![Offer::none("inherit")]),
            thinking: Choice::new(
                std::iter::once(Offer::none("inherit"))
                    .chain(LEVELS.iter().map(|level| Offer::fixed(level)))
                    .collect(),
            ),
            run_limit: blank(),
            cleanup: Choice::new(vec![Offer::fixed("keep"), Offer::fixed("delete")]),
            mode: Choice::default(),
            thread: Choice::default(),
            sandbox: Choice::new(vec![Offer::fixed("inherit"), Offer::fixed("require")]),
            attachments: Vec::new(),
            file: 0,
            attach: blank(),
            field: Field::Task,
            errors: Vec::new(),
            offered: None,
            report_to: Clean::empty(),
            busy: false,
            top: 0,
        }
        .settled()
    }

    fn settled(mut self) -> Self {
        self.settle();
        self
    }

    /// What can be chosen depends on what is offered and on other choices.
    fn settle(&mut self) {
        let threads = self.offered.as_ref().is_none_or(|offered| offered.threads);
        let no_threads: Option<Clean> =
            (!threads).then(|| "the channel cannot bind threads".into());
        self.thread.replace(vec![
            Offer::fixed("off"),
            Offer::fixed("on").blocked(no_threads),
        ]);
        // P-7, and mode `session` is the default with a thread.
        let thread = self.thread.value() == Some("on");
        let needs_thread = (!thread).then(|| Clean::fixed("needs thread on"));
        self.mode.replace(vec![
            Offer::fixed("run"),
            Offer::fixed("session").blocked(needs_thread),
        ]);
        if self
            .mode
            .current()
            .is_some_and(|offer| offer.blocked.is_some())
        {
            self.mode.chosen = 0;
        }
        // Mode `session` forces `keep`.
        let stays = (self.mode.value() == Some("session"))
            .then(|| Clean::fixed("a session that stays is kept"));
        self.cleanup.replace(vec![
            Offer::fixed("keep"),
            Offer::fixed("delete").blocked(stays),
        ]);
        if self
            .cleanup
            .current()
            .is_some_and(|offer| offer.blocked.is_some())
        {
            self.cleanup.chosen = 0;
        }
    }

    fn offer(&mut self, offered: Choices) {
        let own = Untrusted::new(offered.requester.as_str()).clean();
        let mut agents = vec![Offer::none(clean_format!("{} (own)", own))];
        for agent in &offered.agents {
            if agent.id == offered.requester {
                continue;
            }
            let mut offer = Offer::text(&agent.id);
            if let Some(name) = &agent.name {
                offer.label = clean_format!("{} · {}", offer.label, name.clean());
            }
            // An agent that is not configured can still be allowed (G-3): it is said, not forbidden.
            if !agent.configured {
                offer.label = clean_format!("{} (not configured)", offer.label);
            }
            agents.push(offer);
        }
        self.agent.replace(agents);
        let inherit = match &offered.default_model {
            Some(model) => clean_format!("inherit: {}", Untrusted::new(model.as_str()).clean()),
            None => "inherit".into(),
        };
        let models = std::iter::once(Offer::none(inherit))
            .chain(offered.models.iter().map(|model| Offer::text(model)))
            .collect();
        self.model.replace(models);
        self.report_to = offered.report_to.clean();
        if self.run_limit.is_empty() && offered.run_timeout_s > 0 {
            self.run_limit
                .paste(&Untrusted::new(offered.run_timeout_s.to_string()));
        }
        self.offered = Some(offered);
        self.settle();
    }

    fn choice_mut(&mut self, field: Field) -> Option<&mut Choice> {
        Some(match field {
            Field::Agent => &mut self.agent,
            Field::Model => &mut self.model,
            Field::Thinking => &mut self.thinking,
            Field::Cleanup => &mut self.cleanup,
            Field::Mode => &mut self.mode,
            Field::Thread => &mut self.thread,
            Field::Sandbox => &mut self.sandbox,
            Field::Task | Field::Label | Field::RunLimit | Field::Attach => return None,
        })
    }

    pub(super) fn draft_mut(&mut self, field: Field) -> Option<&mut Draft> {
        Some(match field {
            Field::Task => &mut self.task,
            Field::Label => &mut self.label,
            Field::RunLimit => &mut self.run_limit,
            Field::Attach => &mut self.attach,
            _ => return None,
        })
    }

    /// The cursor is among the attachments: nothing is typed, and there are some.
    pub fn is_on_files(&self) -> bool {
        self.field == Field::Attach && self.attach.is_empty() && !self.attachments.is_empty()
    }

    /// Chooses another attachment.
    pub(super) fn step_file(&mut self, forward: bool) {
        let last = self.attachments.len().saturating_sub(1);
        let by = if forward { 1 } else { -1 };
        self.file = self.file.saturating_add_signed(by).min(last);
    }

    /// Takes the chosen attachment away, with what is wrong with it.
    pub(super) fn remove_file(&mut self) {
        if self.file < self.attachments.len() {
            self.attachments.remove(self.file);
            self.file = self.attachments.len().saturating_sub(1);
            self.errors.retain(|(at, _)| *at != Some(Field::Attach));
        }
    }

    pub(super) fn step_field(&mut self, forward: bool) {
        let count = Field::ALL.len();
        let at = Field::ALL
            .iter()
            .position(|field| *field == self.field)
            .unwrap_or(0);
        self.field = Field::ALL[(at + if forward { 1 } else { count - 1 }) % count];
    }

    /// Steps the choice of the field under the cursor; false when it is no choice.
    pub(super) fn step_choice(&mut self, forward: bool) -> bool {
        let field = self.field;
        let Some(choice) = self.choice_mut(field) else {
            return false;
        };
        choice.step(forward);
        let turned_on = field == Field::Thread && self.thread.value() == Some("on");
        self.settle();
        if turned_on {
            self.mode.chosen = 1;
            self.settle();
        }
        self.errors.retain(|(at, _)| *at != Some(field));
        true
    }

    /// What can be said without asking.
    fn check(&self) -> Vec<(Option<Field>, Clean)> {
        let mut errors = Vec::new();
        if self.task.is_blank() {
            errors.push((Some(Field::Task), "a task is needed".into()));
        }
        let limit = self.run_limit.text();
        if !limit.is_blank() && limit.raw().trim().parse::<u64>().is_err() {
            errors.push((
                Some(Field::RunLimit),
                "a whole number of seconds; 0 is no limit".into(),
            ));
        }
        if !self.attach.is_blank() {
            errors.push((
                Some(Field::Attach),
                "Enter adds the file that is typed there".into(),
            ));
        }
        for file in &self.attachments {
            match &file.state {
                AttachmentState::Reading => {
                    errors.push((
                        Some(Field::Attach),
                        clean_format!("{} is still being read", &file.name),
                    ));
                }
                AttachmentState::Failed(why) => {
                    errors.push((
                        Some(Field::Attach),
                        clean_format!("{}: {}", &file.name, why),
                    ));
                }
                AttachmentState::Read(_) => {}
            }
        }
        errors
    }

    /// Arguments of the tool; what is left at its default is left out.
    fn arguments(&self) -> Value {
        let mut all = Map::new();
        all.insert("task".into(), self.task.text().raw().trim().into());
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                all.insert(name.to_owned(), value);
            }
        };
        let text = |draft: &Draft| {
            let text = draft.text();
            (!text.is_blank()).then(|| Value::from(text.raw().trim()))
        };
        let chosen = |choice: &Choice, default: &str| {
            choice
                .value()
                .filter(|value| *value != default)
                .map(Value::from)
        };
        put("label", text(&self.label));
        put("agentId", chosen(&self.agent, ""));
        put("model", chosen(&self.model, ""));
        put("thinking", chosen(&self.thinking, ""));
        let limit = self.run_limit.text().raw().trim().parse::<u64>().ok();
        put("runTimeoutSeconds", limit.map(Value::from));
        put("cleanup", chosen(&self.cleanup, "keep"));
        let thread = self.thread.value() == Some("on");
        put("thread", thread.then_some(Value::Bool(true)));
        // With a thread the default is `session`, so `run` is said as well.
        put(
            "mode",
            thread.then(|| self.mode.value().map(Value::from)).flatten(),
        );
        put("sandbox", chosen(&self.sandbox, "inherit"));
        let files: Vec<Value> = self
            .attachments
            .iter()
            .filter_map(|file| match &file.state {
                AttachmentState::Read(bytes) => Some((file, bytes)),
                _ => None,
            })
            .map(|(file, bytes)| {
                let name = file.path.rsplit('/').next().unwrap_or(&file.path);
                match std::str::from_utf8(bytes) {
                    Ok(text) => json!({ "name": name, "content": text, "encoding": "utf8" }),
                    Err(_) => {
                        let content = base64::engine::general_purpose::STANDARD.encode(bytes);
                        json!({ "name": name, "content": content, "encoding": "base64" })
                    }
                }
            })
            .collect();
        put(
            "attachments",
            (!files.is_empty()).then_some(Value::Array(files)),
        );
        Value::Object(all)
    }
}

/// The field an error of the tool speaks of, as far as its words tell.
fn field_of(error: &str) -> Option<Field> {
    let error = error.to_lowercase();
    [
        ("attachment", Field::Attach),
        ("sandbox", Field::Sandbox),
        ("thread", Field::Thread),
        ("thinking", Field::Thinking),
        ("model", Field::Model),
        ("agentid", Field::Agent),
        ("agents_list", Field::Agent),
    ]
    .into_iter()
    .find(|(word, _)| error.contains(word))
    .map(|(_, field)| field)
}

impl App {
    /// Opens the dialog; the form of the last try is still there, for whatever session is the parent now.
    pub(super) fn open_spawn(&mut self, task: Option<Untrusted>) {
        let Some(parent) = self.subject() else {
            return self.say(Tone::Info, "choose the session that spawns first");
        };
        if let Some(why) = self.why_read_only() {
            return self.say(Tone::Bad, why);
        }
        match &mut self.spawn {
            Some(form) => {
                form.parent = parent.clone();
                form.offered = None;
                if let Some(task) = task.filter(|task| !task.is_blank()) {
                    form.task.set(&task);
                }
            }
            None => self.spawn = Some(SpawnForm::new(parent.clone(), &task.unwrap_or_default())),
        }
        self.layers.push(Layer::Spawn);
        self.give_up(|wanted| matches!(wanted, Wanted::Choices(_)));
        self.ask_as(
            Wanted::Choices(parent.clone()),
            Some(&parent),
            Request::Choices {},
        );
    }

    pub(super) fn choices_came(&mut self, parent: &SessionKey, offered: Choices) {
        let Some(form) = self.spawn.as_mut().filter(|form| form.parent == *parent) else {
            return;
        };
        form.errors.retain(|(field, _)| field.is_some());
        // P-8 and P-9, said before anything is typed.
        if offered.depth >= offered.max_depth {
            let text = clean_format!(
                "this session may not spawn: depth {} of {}",
                offered.depth,
                offered.max_depth
            );
            form.errors.push((None, text));
        } else if offered.children >= offered.max_children {
            let text = clean_format!(
                "this session has {} of {} sub-agents running",
                offered.children,
                offered.max_children
            );
            form.errors.push((None, text));
        }
        form.offer(offered);
    }

    /// `Ctrl+S`.
    pub(super) fn submit_spawn(&mut self) {
        let Some(form) = &mut self.spawn else { return };
        if form.busy {
            return;
        }
        form.errors = form.check();
        if let Some((Some(field), _)) = form.errors.first() {
            form.field = *field;
            return;
        }
        form.busy = true;
        let (arguments, parent) = (form.arguments(), form.parent.clone());
        let request = Request::Tool {
            name: "sessions_spawn".into(),
            arguments,
            // Makes the call repeatable, should the connection break.
            call_id: Some(self.new_id()),
        };
        self.ask_as(Wanted::Spawn, Some(&parent), request);
    }

    pub(super) fn spawn_answered(&mut self, payload: Value) {
        let text = |name: &str| {
            payload
                .get(name)
                .and_then(Value::as_str)
                .map(Untrusted::from)
        };
        if payload.get("status").and_then(Value::as_str) != Some("accepted") {
            let error =
                text("error").map_or_else(|| "refused without a reason".into(), |e| e.clean());
            return self.spawn_trouble(error);
        }
        let asked = self.spawn.take();
        self.layers.retain(|layer| !matches!(layer, Layer::Spawn));
        let mut said: Clean = "spawned".into();
        if let Some(warning) = text("warning") {
            said = clean_format!("{}; {}", said, warning.clean());
        }
        if asked.is_some_and(|form| form.model.value().is_some())
            && payload.get("modelApplied").and_then(Value::as_bool) != Some(true)
        {
            said = clean_format!("{}; the model was not applied", said);
        }
        self.say(Tone::Good, said);
        if let Some(child) = text("childSessionKey") {
            let child = identity(&child);
            self.sessions.reveal(&child, self.now_ms);
            self.open(&child);
            self.open_due_at = None;
            if self.focus == Focus::Compose {
                self.focus = Focus::Transcript;
            }
        }
    }

    /// The dialog stays filled in and says why.
    pub(super) fn spawn_trouble(&mut self, error: Clean) {
        let Some(form) = &mut self.spawn else { return };
        form.busy = false;
        let field = field_of(error.as_str());
        if let Some(field) = field {
            form.field = field;
        }
        form.errors = vec![(field, error)];
    }

    /// `Enter` in the dialog.
    pub(super) fn spawn_enter(&mut self) {
        let Some(form) = &mut self.spawn else { return };
        match form.field {
            Field::Task => {
                form.task.edit(Edit::NewLine);
            }
            Field::Attach if !form.attach.is_blank() => {
                let path = form.attach.text().raw().trim().to_owned();
                form.errors.retain(|(at, _)| *at != Some(Field::Attach));
                let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
                if form.attachments.len() >= MAX_FILES {
                    let text = clean_format!("at most {} files", MAX_FILES);
                    form.errors.push((Some(Field::Attach), text));
                    return;
                }
                form.attachments.retain(|file| file.path != path);
                form.attachments.push(Attachment {
                    path: path.clone(),
                    name: Untrusted::new(name).clean(),
                    state: AttachmentState::Reading,
                });
                form.file = form.attachments.len() - 1;
                form.attach.edit(Edit::Clear);
                self.out.push(Effect::ReadFile { path });
            }
            _ => form.step_field(true),
        }
    }

    pub(super) fn file_read(&mut self, path: &str, result: Result<Vec<u8>, Clean>) {
        let Some(form) = &mut self.spawn else { return };
        if let Some(file) = form.attachments.iter_mut().find(|file| file.path == path) {
            file.state = match result {
                Ok(bytes) => AttachmentState::Read(bytes),
                Err(why) => AttachmentState::Failed(why),
            };
        }
    }
}
