//! Finding the owner of a state directory, or starting one.

use super::lock::{Lock, Record, io};
use super::{HostError, Open};
use crate::backend::remote::Connector;
use crate::client::{ConnectError, Connection};
use crate::protocol::frames::ServerInfo;
use crate::protocol::methods::{Code, Failure};
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long the lock may be held by somebody who is not to be talked to: an owner that comes up, a reader.
pub const BUSY_LIMIT: Duration = Duration::from_secs(15);
/// How long an owner that was started here may take to come up: it may have a schema to migrate.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks.
pub const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// What a look at a directory finds.
pub enum Found {
    Owner(Connection),
    /// The lock is free.
    Nobody,
    /// The lock is held, and there is nobody to talk to (yet): an owner that comes up or goes, or a reader.
    Busy,
}

/// Looks who owns a directory. Makes nothing.
///
/// # Errors
/// [`HostError::NoAnswer`], [`HostError::Refused`], [`HostError::Io`].
pub async fn look(dir: &Path) -> Result<Found, HostError> {
    let record = Record::read(dir);
    if let Some(endpoint) = record.as_ref().and_then(|record| record.endpoint.as_ref()) {
        match Connection::connect(endpoint).await {
            Ok(connection) => return Ok(Found::Owner(connection)),
            // The record is stale, or the owner is just going.
            Err(ConnectError::Nobody { .. } | ConnectError::HungUp { .. }) => {}
            Err(ConnectError::Silent { .. }) => return Err(no_answer(dir)),
            Err(error @ (ConnectError::Stranger { .. } | ConnectError::Refused(_))) => {
                return Err(HostError::Refused {
                    dir: dir.into(),
                    pid: record.map_or(0, |record| record.pid),
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok(if Lock::is_held(dir)? {
        Found::Busy
    } else {
        Found::Nobody
    })
}

/// The holder of the lock does not answer.
pub fn no_answer(dir: &Path) -> HostError {
    HostError::NoAnswer {
        dir: dir.into(),
        pid: Record::read(dir).map_or(0, |record| record.pid),
    }
}

/// Attaches to the owner of one directory, again and again.
pub struct Attach {
    open: Open,
    /// The program that is started as owner; `None`: whoever is not there is not started.
    program: Option<PathBuf>,
    /// What the owner ran on that was attached to last: when none was named, the next one takes the same.
    last: Mutex<Option<ServerInfo>>,
}

impl Attach {
    pub fn new(open: Open, program: Option<PathBuf>) -> Self {
        Self {
            open,
            program,
            last: Mutex::new(None),
        }
    }

    /// What is opened.
    pub fn open(&self) -> &Open {
        &self.open
    }

    /// Attaches, starting an owner when there is none and a program to start.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn attach(&self) -> Result<Connection, HostError> {
        let dir = &self.open.dir;
        let begun = Instant::now();
        let mut started: Option<Child> = None;
        loop {
            match look(dir).await? {
                Found::Owner(connection) => {
                    self.accept(&connection)?;
                    return Ok(connection);
                }
                Found::Busy => {}
                Found::Nobody => match self.ended(started.as_mut())? {
                    None => {}
                    Some(status) if !status.success() => {
                        return Err(HostError::Ended {
                            dir: dir.clone(),
                            status: status.to_string(),
                        });
                    }
                    // It found another owner, which has gone since, or none was started yet.
                    Some(_) => {
                        super::check(dir).await?;
                        started = Some(self.start()?);
                    }
                },
            }
            let limit = match started.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => START_LIMIT,
                _ => BUSY_LIMIT,
            };
            if begun.elapsed() > limit {
                return Err(no_answer(dir));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// How the process that was started ended; success when none was started.
    fn ended(
        &self,
        started: Option<&mut Child>,
    ) -> Result<Option<std::process::ExitStatus>, HostError> {
        match started {
            None => Ok(Some(std::process::ExitStatus::default())),
            Some(child) => child
                .try_wait()
                .map_err(|error| io("waiting for the owner of", &self.open.dir, error)),
        }
    }

    /// Checks that the owner runs on what was named.
    fn accept(&self, connection: &Connection) -> Result<(), HostError> {
        let owner = &connection.hello().server;
        check_config(&self.open, owner)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner.clone());
        Ok(())
    }

    fn start(&self) -> Result<Child, HostError> {
        let Some(program) = &self.program else {
            return Err(HostError::Ended {
                dir: self.open.dir.clone(),
                status: "it went away".into(),
            });
        };
        let last = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut open = self.open.clone();
        if let (None, false, Some(last)) = (&open.config, open.demo, last) {
            (open.config, open.demo) = (last.config, last.demo);
        }
        // What is wrong with a configuration is said here, not by a process without a terminal.
        super::settings(&open)?;
        let mut command = Command::new(program);
        command.arg("host").arg("--state").arg(&open.dir);
        // What was named is on the command line; the environment must not name something else.
        command.env_remove("CROSSTALK_CONFIG");
        if open.demo {
            command.arg("--demo-cast");
        } else if let Some(config) = &open.config {
            command.arg("--config").arg(config);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io("starting", program, error))
    }
}

impl Connector for Attach {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Failure>> {
        Box::pin(async move {
            self.attach().await.map_err(|error| {
                let code = match &error {
                    HostError::NoAnswer { .. } | HostError::Ended { .. } => Code::Unavailable,
                    HostError::Config(_) => Code::InvalidRequest,
                    HostError::OtherConfig { .. }
                    | HostError::Store(_)
                    | HostError::Refused { .. } => Code::Refused,
                    HostError::Io { .. } => Code::Io,
                };
                Failure::new(code, error.to_string())
            })
        })
    }
}

/// Refuses an owner that runs on another configuration than the one that was named.
///
/// # Errors
/// [`HostError::OtherConfig`].
pub fn check_config(open: &Open, owner: &ServerInfo) -> Result<(), HostError> {
    let named = match (&open.config, open.demo) {
        (_, true) if !owner.demo => PathBuf::from("the built-in cast"),
        (Some(named), false) if owner.demo || owner.config.as_deref() != Some(&resolved(named)) => {
            named.clone()
        }
        _ => return Ok(()),
    };
    Err(HostError::OtherConfig {
        dir: open.dir.clone(),
        pid: owner.pid.unwrap_or(0),
        owner: match &owner.config {
            _ if owner.demo => "the built-in cast".into(),
            Some(config) => config.display().to_string(),
            None => "no configuration".into(),
        },
        named,
    })
}

/// A path that is the same for the same file, whoever names it from wherever.
pub fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.into())
}
