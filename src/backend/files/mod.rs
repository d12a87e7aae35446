//! A foreign directory as a backend, read-only (D-4): lists, details, transcripts and the tools that only read.
//!
//! Invariant: every request that would change something is refused before the store is asked (AC-140). The settings
//! are the directory's own (`openclaw.json`), as far as they can be used: they say which agents, models and main key
//! its sessions were made with. Absent on purpose: runs, for nothing here knows what another program is doing.

mod follow;

use super::Backend;
use crate::clock::Clock;
use crate::config::{self, Settings};
use crate::engine::context::Context;
use crate::engine::reference::{self, Target};
use crate::engine::{agents_list, history, list};
use crate::model::event::Event;
use crate::model::policy;
use crate::model::tools::{NAMES, ToolStatus};
use crate::model::visibility::Doing;
use crate::protocol::methods::{Call, Caller, Code, Detail, Failure, Info, Reply, Request, Waited};
use crate::store::openclaw::directory::Directory;
use crate::store::{Sessions, StoreError};
use crate::text::{Untrusted, clean_str};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

/// An OpenClaw state directory, for reading. Cheap to clone.
#[derive(Clone)]
pub struct FilesBackend {
    inner: Arc<Inner>,
}

struct Inner {
    store: Directory,
    settings: Settings,
    clock: Clock,
    /// Remarks about the directory's configuration.
    warnings: Vec<String>,
}

impl FilesBackend {
    /// Opens a directory with the settings it brings along. Blocks.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let own = OwnConfig::read(dir);
        Ok(Self {
            inner: Arc::new(Inner {
                store: Directory::open(dir, own.store.as_deref(), &own.settings.main_key)?,
                settings: own.settings,
                clock: Clock::system(),
                warnings: own.warnings,
            }),
        })
    }

    async fn blocking<T, F>(&self, work: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce(&Inner) -> Result<T, Failure> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner))
            .await
            .unwrap_or_else(|error| Err(Failure::new(Code::Io, error.to_string())))
    }
}

impl Backend for FilesBackend {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        self.blocking(move |inner| inner.answer(call)).boxed()
    }

    /// What is missed cannot be had again from files: a cursor is answered with a `resync`.
    fn events(&self, since: Option<String>) -> mpsc::Receiver<Event> {
        follow::follow(Arc::clone(&self.inner), since.is_some())
    }
}

impl Inner {
    fn answer(&self, call: Call) -> Result<Reply, Failure> {
        let context = || self.context(&call.caller);
        match call.request {
            Request::Info {} => Ok(Reply::Info(Box::new(self.info()))),
            Request::List(ref request) => {
                let now = self.clock.now_ms();
                list::rows(&self.store, &self.settings, &context()?, request, now)
                    .map(Reply::Rows)
                    .map_err(unreadable)
            }
            Request::Detail { ref key } => {
                let detail = self.detail(&context()?, key)?;
                Ok(Reply::Detail(Box::new(detail)))
            }
            Request::History(ref request) => {
                history::lines(&self.store, &self.settings, &context()?, request).map(Reply::Lines)
            }
            Request::Tool {
                ref name,
                ref arguments,
                ..
            } => Ok(Reply::Tool {
                payload: self.tool(&context()?, name, arguments),
            }),
            // Runs belong to the program whose directory this is; none is known here (E-12).
            Request::Runs {} => Ok(Reply::Runs { runs: Vec::new() }),
            Request::Wait { run_id, .. } => Ok(Reply::Waited(Waited {
                run_id,
                outcome: None,
                state: None,
                settled: false,
                reply: None,
                post: None,
                error: None,
                started_at: None,
                ended_at: None,
            })),
            _ => Err(Failure::new(Code::Forbidden, self.read_only())),
        }
    }

    /// The reason of every refusal (S-14).
    fn read_only(&self) -> String {
        format!(
            "read-only: {} is an OpenClaw state directory, nothing in it is changed; to send, connect to its gateway",
            clean_str(&self.store.dir().display().to_string())
        )
    }

    /// A person, or the session that is asked for: it must be there.
    fn context(&self, caller: &Caller) -> Result<Context, Failure> {
        let person = Context::person(&self.settings);
        let Some(given) = &caller.session else {
            return Ok(person);
        };
        let target = self.target(&person, given, Doing::List)?;
        let Some(entry) = target.entry else {
            return Err(missing(given));
        };
        let mut context = Context::session(&self.settings, target.key);
        let route = entry.route();
        context.channel.clone_from(&route.channel);
        context.route = Some(route).filter(|route| !route.is_empty());
        Ok(context)
    }

    fn target(&self, context: &Context, key: &Untrusted, doing: Doing) -> Result<Target, Failure> {
        reference::resolve(&self.store, &self.settings, context, key.raw(), doing)
            .map_err(|refusal| history::failure(&refusal))
    }

    fn info(&self) -> Info {
        let warnings = self.warnings.iter().cloned().chain(self.store.warnings());
        Info {
            source: "openclaw files".into(),
            place: Untrusted::new(self.store.dir().to_string_lossy()),
            config: self
                .settings
                .source
                .as_ref()
                .map(|file| Untrusted::new(file.to_string_lossy())),
            version: env!("CARGO_PKG_VERSION").into(),
            read_only: true,
            default_agent: self.settings.default_agent().as_str().into(),
            main_key: self.settings.main_key.clone(),
            warnings: warnings.map(Untrusted::from).collect(),
            ..Info::default()
        }
    }

    fn detail(&self, context: &Context, key: &Untrusted) -> Result<Detail, Failure> {
        let target = self.target(context, key, Doing::List)?;
        let Some(entry) = target.entry else {
            return Err(missing(key));
        };
        let (store, settings) = (&self.store, &self.settings);
        let now = self.clock.now_ms();
        let policy = &settings.send_policy;
        let decision = policy::decide(policy.as_ref(), &entry.key, Some(&entry), None, None);
        let stored = store.stored(&entry.key).map_err(unreadable)?;
        Ok(Detail {
            row: list::one(store, settings, context, &entry, now).map_err(unreadable)?,
            send_policy: decision.policy,
            send_policy_source: match decision.source {
                policy::Source::Override => "override".into(),
                policy::Source::Rule(number) => format!("rule {number}"),
                policy::Source::Default => "default".into(),
            },
            entry: stored.unwrap_or_default(),
            runs: Vec::new(),
        })
    }

    fn tool(&self, context: &Context, name: &str, arguments: &Value) -> Value {
        let none = Map::new();
        let arguments = match arguments {
            Value::Object(members) => members,
            Value::Null => &none,
            _ => return reference::usage_error(name, "arguments must be a JSON object"),
        };
        let (store, settings) = (&self.store, &self.settings);
        match name {
            "sessions_list" => list::list(store, settings, context, arguments, self.clock.now_ms()),
            "sessions_history" => history::history(store, settings, context, arguments),
            "agents_list" => agents_list::agents_list(settings, context),
            "sessions_send" | "sessions_spawn" => {
                json!({ "status": ToolStatus::Error, "error": self.read_only() })
            }
            other => {
                let known = NAMES.join(", ");
                reference::usage_error(other, &format!("unknown tool {other:?}; known: {known}"))
            }
        }
    }
}

fn missing(given: &Untrusted) -> Failure {
    let text = format!("no session \"{}\" was found", given.raw());
    Failure::new(Code::NotFound, text)
}

fn unreadable(error: StoreError) -> Failure {
    Failure::new(Code::Io, error.to_string())
}

/// What the directory's own `openclaw.json` says.
struct OwnConfig {
    settings: Settings,
    /// `session.store` (C-5).
    store: Option<String>,
    warnings: Vec<String>,
}

impl OwnConfig {
    /// Never fails: sessions can be read without it. Members we do not know are no remark: the file is not ours.
    fn read(dir: &Path) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Probe {
            session: Session,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Session {
            store: Option<String>,
        }
        let file: PathBuf = dir.join("openclaw.json");
        let mut own = Self {
            settings: Settings::default(),
            store: None,
            warnings: Vec::new(),
        };
        let name = clean_str(&file.display().to_string());
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return own,
            Err(error) => {
                own.warnings
                    .push(format!("{name} cannot be read ({error}): defaults hold"));
                return own;
            }
        };
        own.store = json5::from_str::<Probe>(&text)
            .ok()
            .and_then(|probe| probe.session.store);
        match config::parse(&text, &file) {
            Ok(settings) => own.settings = settings,
            Err(error) => own
                .warnings
                .push(format!("{name} cannot be used ({error}): defaults hold")),
        }
        own
    }
}
