//! Queues and lanes: one run at a time per session, first in first out (E-6); besides its session a run takes a slot
//! of its lane (E-7). A run blocked in a tool call holds no lane slot (E-8).

use super::{Engine, lock};
use crate::config::Settings;
use crate::model::key::SessionKey;
use crate::model::run::{Lane, Run};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All queues and lanes of an engine.
pub struct Lanes {
    main: Arc<Semaphore>,
    subagent: Arc<Semaphore>,
    queues: Mutex<HashMap<SessionKey, Queue>>,
}

#[derive(Default)]
struct Queue {
    busy: bool,
    waiting: VecDeque<(u64, Run)>,
}

/// A slot of a lane; `None` in the lane without a cap.
pub type Slot = Option<OwnedSemaphorePermit>;

impl Lanes {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            main: Arc::new(Semaphore::new(settings.max_concurrent.max(1))),
            subagent: Arc::new(Semaphore::new(settings.subagents.max_concurrent.max(1))),
            queues: Mutex::default(),
        }
    }

    /// Takes a slot, waiting for one.
    pub(super) async fn slot(&self, lane: Lane) -> Slot {
        let semaphore = match lane {
            Lane::Main => &self.main,
            Lane::Subagent => &self.subagent,
            Lane::Nested => return None,
        };
        // Never closed, so this only waits.
        semaphore.clone().acquire_owned().await.ok()
    }

    /// Runs that wait behind the active one.
    pub fn queued(&self, key: &SessionKey) -> u32 {
        lock(&self.queues).get(key).map_or(0, |queue| {
            u32::try_from(queue.waiting.len()).unwrap_or(u32::MAX)
        })
    }

    /// Runs that are before one that is queued now.
    pub(super) fn before(&self, key: &SessionKey) -> u32 {
        let queues = lock(&self.queues);
        let count = queues
            .get(key)
            .map_or(0, |queue| queue.waiting.len() + usize::from(queue.busy));
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Runs waiting in all queues.
    pub fn queued_in_all(&self) -> u32 {
        lock(&self.queues)
            .values()
            .map(|queue| u32::try_from(queue.waiting.len()).unwrap_or(u32::MAX))
            .sum()
    }

    /// Takes runs out of a queue; those that have begun are not in it any more.
    pub(super) fn withdraw(&self, key: &SessionKey, which: impl Fn(&Run) -> bool) -> Vec<Run> {
        let mut queues = lock(&self.queues);
        let Some(queue) = queues.get_mut(key) else {
            return Vec::new();
        };
        let (out, stay) = std::mem::take(&mut queue.waiting)
            .into_iter()
            .partition(|(_, run)| which(run));
        queue.waiting = stay;
        out.into_iter().map(|(_, run): (u64, Run)| run).collect()
    }
}

impl Engine {
    /// Puts an accepted run into its session's queue; `order` is its place in the order of acceptance. Returns how
    /// many runs are before it.
    pub(super) fn enqueue(&self, order: u64, run: Run) -> u32 {
        let key = run.session_key.clone();
        let mut queues = lock(&self.inner.lanes.queues);
        let queue = queues.entry(key.clone()).or_default();
        let place = queue.waiting.partition_point(|(other, _)| *other < order);
        queue.waiting.insert(place, (order, run));
        let before = u32::try_from(place)
            .unwrap_or(u32::MAX)
            .saturating_add(u32::from(queue.busy));
        if !queue.busy {
            queue.busy = true;
            let engine = self.clone();
            self.spawn(async move { engine.work(key).await });
        }
        before
    }

    async fn work(&self, key: SessionKey) {
        loop {
            let next = {
                let mut queues = lock(&self.inner.lanes.queues);
                let Some(queue) = queues.get_mut(&key) else {
                    return;
                };
                match queue.waiting.pop_front() {
                    Some((_, run)) => run,
                    None => {
                        queues.remove(&key);
                        return;
                    }
                }
            };
            self.execute(next).await;
        }
    }
}
