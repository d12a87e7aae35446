//! Does what the browser asks for, outside of the loop: calls to the backend as tasks, the client's store on one
//! thread in order, files and the editor.

use crate::app::effect::Effect;
use crate::app::event::{Ticket, What};
use crate::backend::SharedBackend;
use crate::clean_format;
use crate::protocol::methods::Call;
use crate::store::StoreError;
use crate::store::client::ClientStore;
use crate::text::{Clean, Untrusted, clean_str};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// Answers that wait for the loop at most.
const ANSWERS: usize = 256;
/// Things to keep that wait for the store at most.
const KEEPING: usize = 256;
/// How long leaving waits for what is still to be kept or stopped.
const LEAVING: Duration = Duration::from_secs(3);
/// A file larger than this is not read for an attachment: the engine refuses more in total (T-3).
const MAX_FILE_BYTES: u64 = 5_242_880;
/// Sends that are shown from earlier times.
const SENDS: usize = 200;

/// What the loop hands its effects to.
pub struct Runner {
    backend: SharedBackend,
    answers: mpsc::Sender<What>,
    calls: JoinSet<()>,
    tickets: HashMap<Ticket, tokio::task::AbortHandle>,
    keeper: Option<Keeper>,
}

/// The one writer to the client's store.
struct Keeper {
    jobs: mpsc::Sender<Job>,
    task: JoinHandle<()>,
}

type Job = Box<dyn FnOnce(&ClientStore, &str) -> Result<(), StoreError> + Send>;

impl Runner {
    /// A runner, and where the answers come out. `source` tells drafts and sends of one source from those of another.
    pub fn new(
        backend: SharedBackend,
        client: Option<Arc<ClientStore>>,
        source: String,
    ) -> (Self, mpsc::Receiver<What>) {
        let (answers, received) = mpsc::channel(ANSWERS);
        let keeper = client.map(|client| Keeper::start(client, source, answers.clone()));
        let runner = Self {
            backend,
            answers,
            calls: JoinSet::new(),
            tickets: HashMap::new(),
            keeper,
        };
        (runner, received)
    }

    /// Does one effect; gives back what only the loop can do (everything about the terminal).
    pub fn run(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Call { ticket, call } => self.call(ticket, *call),
            Effect::Cancel { ticket } => {
                if let Some(task) = self.tickets.remove(&ticket) {
                    task.abort();
                }
            }
            Effect::SaveDraft { key, text } => {
                self.keep(Box::new(move |store, source| {
                    store.set_draft(source, key.as_str(), &text, now_ms())
                }));
            }
            Effect::SaveSend(entry) => {
                self.keep(Box::new(move |store, source| {
                    store.put_send(source, &entry)
                }));
            }
            Effect::SetPreference { name, value } => {
                self.keep(Box::new(move |store, _| store.set_preference(name, &value)));
            }
            Effect::ReadFile { path } => self.read_file(path),
            other => return Some(other),
        }
        None
    }

    fn call(&mut self, ticket: Ticket, call: Call) {
        // Tasks that are done make room as new ones come.
        while self.calls.try_join_next().is_some() {}
        self.tickets.retain(|_, task| !task.is_finished());
        let (backend, answers) = (Arc::clone(&self.backend), self.answers.clone());
        let task = self.calls.spawn(async move {
            let result = backend.call(call).await.map(Box::new);
            // The loop is gone only when the program ends.
            let _ = answers.send(What::Replied { ticket, result }).await;
        });
        self.tickets.insert(ticket, task);
    }

    fn keep(&self, job: Job) {
        let Some(keeper) = &self.keeper else { return };
        if keeper.jobs.try_send(job).is_err() {
            let text = "drafts cannot be kept: the disk does not keep up".into();
            let _ = self.answers.try_send(What::Trouble(text));
        }
    }

    fn read_file(&self, path: String) {
        let answers = self.answers.clone();
        tokio::task::spawn_blocking(move || {
            let result = read_limited(&home(&path)).map_err(|why| clean_str(&why));
            let _ = answers.blocking_send(What::FileRead { path, result });
        });
    }

    /// Waits for what must not be lost: drafts and sends to be kept, and with `calls` the answers of what was asked
    /// last (stopping runs). Gives up after a while.
    pub async fn finish(mut self, calls: bool) {
        if calls {
            let all = async { while self.calls.join_next().await.is_some() {} };
            // Answers that nobody reads any more must not hold the calls up: there is room for them.
            let _ = tokio::time::timeout(LEAVING, all).await;
        }
        self.calls.abort_all();
        if let Some(keeper) = self.keeper.take() {
            drop(keeper.jobs);
            let _ = tokio::time::timeout(LEAVING, keeper.task).await;
        }
    }
}

impl Keeper {
    fn start(client: Arc<ClientStore>, source: String, answers: mpsc::Sender<What>) -> Self {
        let (jobs, mut waiting) = mpsc::channel::<Job>(KEEPING);
        let task = tokio::task::spawn_blocking(move || {
            load(&client, &source, &answers);
            while let Some(job) = waiting.blocking_recv() {
                if let Err(error) = job(&client, &source) {
                    let text = clean_format!("not kept: {}", clean_str(&error.to_string()));
                    let _ = answers.try_send(What::Trouble(text));
                }
            }
        });
        Self { jobs, task }
    }
}

/// Drafts and sends of earlier times.
fn load(client: &ClientStore, source: &str, answers: &mpsc::Sender<What>) {
    let drafts = client.drafts(source).map(What::Drafts);
    let sends = client.sends(source, SENDS).map(What::Ledger);
    for loaded in [drafts, sends] {
        let what = loaded.unwrap_or_else(|error| {
            What::Trouble(clean_format!(
                "drafts and sends of earlier times: {}",
                clean_str(&error.to_string())
            ))
        });
        let _ = answers.blocking_send(what);
    }
}

fn now_ms() -> i64 {
    crate::clock::Clock::system().now_ms()
}

fn home(path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => {
            std::env::home_dir().map_or_else(|| PathBuf::from(path), |home| home.join(rest))
        }
        None => PathBuf::from(path),
    }
}

fn read_limited(path: &Path) -> Result<Vec<u8>, String> {
    let say = |error: std::io::Error| error.to_string();
    let file = std::fs::File::open(path).map_err(say)?;
    let about = file.metadata().map_err(say)?;
    if !about.is_file() {
        return Err("not a file".into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(say)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes)
}

/// Lets the person edit a text in `$VISUAL`, `$EDITOR` or `vi`, on a terminal that was given back.
///
/// # Errors
/// A line that says what went wrong; the text is then as it was.
pub async fn edit(text: &Untrusted) -> Result<Untrusted, Clean> {
    let say = |what: &'static str| {
        move |error: std::io::Error| clean_format!("{}: {}", what, clean_str(&error.to_string()))
    };
    let file = tempfile::Builder::new()
        .prefix("crosstalk-")
        .suffix(".md")
        .tempfile()
        .map_err(say("cannot make a file to edit"))?;
    std::fs::write(file.path(), text.raw()).map_err(say("cannot write the file to edit"))?;
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        })
        .unwrap_or_else(|| "vi".into());
    // By the shell, because the variable may hold arguments.
    let status = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .status()
        .await
        .map_err(say("cannot start the editor"))?;
    if !status.success() {
        return Err(clean_format!(
            "the editor ended with {}: the text is as it was",
            clean_str(&status.to_string())
        ));
    }
    let bytes = std::fs::read(file.path()).map_err(say("cannot read what was edited"))?;
    String::from_utf8(bytes)
        .map(Untrusted::new)
        .map_err(|_| "what was edited is not UTF-8 text: the text is as it was".into())
}
