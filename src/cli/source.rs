//! Whom a command asks: our own engine by way of the owner of its directory, or a foreign directory.

use super::args::Global;
use super::place::{Places, variable};
use super::stop::{Stop, ask};
use crate::backend::SharedBackend;
use crate::backend::files::FilesBackend;
use crate::error::Exit;
use crate::host::{self, Open, Purpose};
use crate::model::run::RunId;
use crate::protocol::methods::{Call, Caller, Info, Reply, Request};
use crate::text::Untrusted;
use crate::text::mask::Masker;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// What is asked.
#[derive(Debug, Clone)]
pub enum Source {
    /// An OpenClaw directory, read-only.
    OpenClaw(PathBuf),
    /// Our own state.
    State {
        dir: PathBuf,
        /// The configuration that was named, if one was.
        config: Option<PathBuf>,
        /// It is the built-in cast's.
        demo: bool,
    },
}

impl Source {
    /// From flags and environment.
    ///
    /// # Errors
    /// Exit 2 for flags that exclude each other, 6 without a home directory.
    pub fn find(global: &Global) -> Result<Self, Stop> {
        if let Some(dir) = &global.openclaw {
            if global.state.is_some() {
                return Err(Stop::usage("--state and --openclaw exclude each other"));
            }
            return Ok(Self::OpenClaw(dir.clone()));
        }
        let config = global
            .config
            .clone()
            .or_else(|| variable("CROSSTALK_CONFIG"));
        let named = global
            .state
            .clone()
            .or_else(|| variable("CROSSTALK_STATE_DIR"));
        // A home is needed only where nothing is named.
        let places = Places::find();
        let dir = match named {
            Some(dir) => dir,
            None => places.as_ref().map_err(|_| no_home())?.state(),
        };
        let demo = config.is_none() && places.is_ok_and(|places| places.holds_demo(&dir));
        Ok(Self::State { dir, config, demo })
    }

    /// Connects.
    ///
    /// # Errors
    /// [`Stop`] with the code of [`host::HostError`].
    pub async fn open(&self, purpose: Purpose) -> Result<SharedBackend, Stop> {
        match self {
            Self::OpenClaw(dir) => {
                let looked = dir.clone();
                let opened = tokio::task::spawn_blocking(move || FilesBackend::open(&looked)).await;
                let backend = opened.map_err(|error| Stop::io(error.to_string()))??;
                if !dir.join("agents").exists() {
                    let place = Untrusted::new(dir.to_string_lossy()).clean();
                    return Err(Stop::because(
                        Exit::NoOwner,
                        format!("{place} is not an OpenClaw state directory: it has no agents"),
                    ));
                }
                Ok(Arc::new(backend))
            }
            Self::State { dir, config, demo } => Ok(host::open(Open {
                dir: dir.clone(),
                config: config.clone(),
                demo: *demo,
                purpose,
            })
            .await?),
        }
    }
}

fn no_home() -> Stop {
    Stop::io("there is no home directory; set HOME, or name a directory with --state")
}

/// What every command needs.
pub struct Context {
    pub source: Source,
    pub caller: Caller,
    pub observe: bool,
}

impl Context {
    /// From the flags.
    ///
    /// # Errors
    /// As [`Source::find`].
    pub fn new(global: &Global) -> Result<Self, Stop> {
        Ok(Self {
            source: Source::find(global)?,
            caller: Caller {
                session: global.caller.as_deref().map(Untrusted::from),
            },
            observe: global.observe,
        })
    }

    /// Connects to read.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub async fn read(&self) -> Result<SharedBackend, Stop> {
        self.source.open(Purpose::Read).await
    }

    /// Connects to change something: refused before anything is opened where only looking is allowed.
    ///
    /// # Errors
    /// Exit 3 with `--observe` and on a foreign directory; as [`Source::open`].
    pub async fn change(&self, what: &'static str) -> Result<SharedBackend, Stop> {
        if self.observe {
            let text = format!("--observe forbids {what}: nothing was sent");
            return Err(Stop::because(Exit::Forbidden, text));
        }
        if let Source::OpenClaw(_) = &self.source {
            let text = format!("--openclaw is read-only: {what} is not possible there");
            return Err(Stop::because(Exit::Forbidden, text));
        }
        self.source.open(Purpose::Work).await
    }

    /// A request by the caller.
    pub fn call(&self, request: Request) -> Call {
        Call {
            caller: self.caller.clone(),
            request,
        }
    }

    /// One tool call by the caller, under a new id.
    ///
    /// # Errors
    /// [`Stop`] for failures; what the tool refuses is its payload.
    pub async fn tool(
        &self,
        backend: &SharedBackend,
        name: &str,
        arguments: Value,
    ) -> Result<Value, Stop> {
        let call = self.call(Request::Tool {
            name: name.into(),
            arguments,
            call_id: Some(new_id()),
        });
        ask(backend, call, |reply| match reply {
            Reply::Tool { payload } => Some(payload),
            _ => None,
        })
        .await
    }

    /// What the source is.
    ///
    /// # Errors
    /// [`Stop`] for failures.
    pub async fn info(&self, backend: &SharedBackend) -> Result<Info, Stop> {
        ask(backend, Request::Info {}.into(), |reply| match reply {
            Reply::Info(info) => Some(*info),
            _ => None,
        })
        .await
    }

    /// What masks secrets: the patterns of the configuration that the source runs on (C-35), else the built-in ones.
    pub async fn masker(&self, backend: &SharedBackend) -> Masker {
        let config = match self.info(backend).await {
            Ok(info) => info.config,
            Err(_) => None,
        };
        let Some(file) = config else {
            return Masker::builtin();
        };
        // Not shown: it names a file to open.
        let file = PathBuf::from(file.into_raw());
        crate::config::load(&file).map_or_else(|_| Masker::builtin(), |settings| settings.masker)
    }
}

/// A new id for a call or a run.
pub fn new_id() -> RunId {
    uuid::Uuid::now_v7().to_string()
}

/// The text itself, or standard input for `-`.
///
/// # Errors
/// Exit 6 when standard input cannot be read or is no text.
pub fn text_or_stdin(text: &str) -> Result<String, Stop> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    std::io::read_to_string(std::io::stdin())
        .map_err(|error| Stop::io(format!("cannot read standard input: {error}")))
}
