//! Group commit: changes that wait when a commit begins share it, each in a savepoint of its own.
//!
//! There is no thread for it: whoever adds a change when nobody is at work starts a blocking task that works until
//! nothing waits. A change that was added is carried out whether or not its caller still waits.

use super::record::Facts;
use super::tx::Tx;
use crate::store::StoreError;
use crate::store::database::sql_error;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A change with its result's type forgotten.
trait Job: Send {
    /// True: keep what it did.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Tells the caller; `lost` says why what succeeded was not committed.
    fn answer(self: Box<Self>, lost: Option<StoreError>);
}

struct Change<T, F> {
    change: Option<F>,
    outcome: Result<T, StoreError>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Change<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        if let Some(change) = self.change.take() {
            // On a panic the outcome stays what it was set to at first, and the savepoint is undone.
            if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| change(tx))) {
                self.outcome = outcome;
            }
        }
        self.outcome.is_ok()
    }

    fn answer(self: Box<Self>, lost: Option<StoreError>) {
        let outcome = match (self.outcome, lost) {
            (Ok(_), Some(error)) => Err(error),
            (outcome, _) => outcome,
        };
        // The caller may have gone away; the change stands all the same.
        let _ = self.caller.send(outcome);
    }
}

/// The writing side of a store.
pub struct Writer {
    file: PathBuf,
    facts: Arc<Facts>,
    connection: Mutex<Connection>,
    queue: Mutex<Queue>,
    commits: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn Job>>,
    /// Somebody is at work, or about to be.
    busy: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic inside a change is caught before it could leave anything half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub fn new(file: PathBuf, facts: Arc<Facts>, connection: Connection) -> Self {
        Self {
            file,
            facts,
            connection: Mutex::new(connection),
            queue: Mutex::default(),
            commits: AtomicU64::new(0),
        }
    }

    /// How many transactions were committed.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub fn limit_pages(&self, pages: Option<u32>) {
        let pages = pages.unwrap_or(u32::MAX - 1);
        // Only a test asks for it, and sees that it had no effect.
        let _ = lock(&self.connection).pragma_update(None, "max_page_count", pages);
    }

    /// Adds a change; its result comes once it is on disk.
    pub fn add<T, F>(self: &Arc<Self>, change: F) -> oneshot::Receiver<Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (caller, result) = oneshot::channel();
        let job = Box::new(Change {
            change: Some(change),
            outcome: Err(panicked()),
            caller,
        });
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(job);
        if !std::mem::replace(&mut queue.busy, true) {
            drop(queue);
            let work = Work(Arc::clone(self));
            tokio::task::spawn_blocking(move || drop(work));
        }
        result
    }

    /// Everything that waits now or begins to wait meanwhile.
    fn work(&self) {
        loop {
            let batch = {
                let mut queue = lock(&self.queue);
                if queue.waiting.is_empty() {
                    queue.busy = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            self.commit(batch);
        }
    }

    /// One transaction. When it fails, everything that was done in it is undone and all its callers hear of it.
    fn commit(&self, mut batch: VecDeque<Box<dyn Job>>) {
        let connection = lock(&self.connection);
        let mut done = Vec::with_capacity(batch.len());
        let mut outcome = connection.execute_batch("BEGIN IMMEDIATE");
        while outcome.is_ok()
            && let Some(mut job) = batch.pop_front()
        {
            outcome = self.run(&connection, job.as_mut());
            done.push(job);
        }
        if outcome.is_ok() {
            outcome = connection.execute_batch("COMMIT");
        }
        match outcome {
            Ok(()) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                for job in done {
                    job.answer(None);
                }
            }
            Err(error) => {
                if !connection.is_autocommit() {
                    // Nothing can be done about a failure here: the next BEGIN will say so.
                    let _ = connection.execute_batch("ROLLBACK");
                }
                for job in done.into_iter().chain(batch) {
                    job.answer(Some(sql_error(&self.file, copy(&error))));
                }
            }
        }
    }

    /// One change in its savepoint; an error is one of the whole transaction.
    fn run(&self, connection: &Connection, job: &mut dyn Job) -> rusqlite::Result<()> {
        connection.execute_batch("SAVEPOINT change")?;
        let keep = job.run(&mut Tx::new(connection, &self.file, &self.facts));
        if connection.is_autocommit() {
            // A full disk or a failing one makes SQLite undo the whole transaction, whatever the change said.
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
                Some("the disk is full or failed, and the changes were undone".into()),
            ));
        }
        connection.execute_batch(if keep {
            "RELEASE change"
        } else {
            "ROLLBACK TO change; RELEASE change"
        })
    }
}

/// Works when it is dropped: also when the runtime ends before the task that holds it has begun.
struct Work(Arc<Writer>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.work();
    }
}

fn panicked() -> StoreError {
    StoreError::Record {
        what: "a change of the state".into(),
        reason: "it panicked, and was undone".into(),
    }
}

fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => rusqlite::Error::ToSqlConversionFailure(other.to_string().into()),
    }
}
