//! The built-in cast: its sessions are seeded once, its script plays through the ordinary machinery.

use super::{Engine, lines};
use crate::agents::scripted::{Cast, CueKind};
use crate::store::{Sessions, StoreError, transcript};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Marks a state that has the cast's sessions.
const SEEDED: &str = "demo.seeded";

impl Engine {
    /// Seeds the cast's sessions when they are not there yet, and plays its script then.
    pub(super) async fn seed(&self) -> Result<(), StoreError> {
        let Some(cast) = self.inner.cast.clone() else {
            return Ok(());
        };
        if self.inner.store.read(|tx| tx.meta(SEEDED)).await?.is_some() {
            return Ok(());
        }
        let seeds = cast.seeds(self.now_ms());
        let entries: Vec<_> = seeds.iter().map(|seed| seed.entry.clone()).collect();
        self.look(move |store| {
            for seed in &seeds {
                let Some(path) = store.transcript_path(&seed.entry) else {
                    continue;
                };
                // A start that was cut off half-way left some of them; they are made anew.
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StoreError::Io {
                            what: "cannot replace",
                            path,
                            error,
                        });
                    }
                    _ => {}
                }
                transcript::append(&path, &seed.lines, false)?;
            }
            Ok(())
        })
        .await?;
        self.inner
            .store
            .write(move |tx| {
                for entry in &entries {
                    tx.put_entry(entry)?;
                }
                tx.set_meta(SEEDED, Some("1"))
            })
            .await?;
        self.play(cast);
        Ok(())
    }

    /// Plays the script from its beginning.
    ///
    /// # Errors
    /// There is no cast here, or it is playing.
    pub fn play_demo(&self) -> Result<(), String> {
        let cast = self
            .inner
            .cast
            .clone()
            .ok_or("only the built-in cast has a script to play")?;
        if self.inner.playing.load(Ordering::SeqCst) {
            return Err("the script is playing".into());
        }
        self.play(cast);
        Ok(())
    }

    fn play(&self, cast: Arc<Cast>) {
        self.inner.playing.store(true, Ordering::SeqCst);
        let engine = self.clone();
        self.spawn(async move {
            let start = tokio::time::Instant::now();
            for cue in cast.timeline() {
                tokio::time::sleep_until(start + Duration::from_millis(cue.at_ms)).await;
                let result = match cue.cue.clone() {
                    CueKind::Incoming { channel, from, owner, key, text } => {
                        engine.incoming(&channel, &from, owner, key, text.raw()).await.map(|_| ())
                    }
                    CueKind::Operator { key, text } => {
                        engine.operator_send(key, text.raw(), &lines::new_id()).await.map(|_| ()).map_err(String::from)
                    }
                };
                if let Err(error) = result {
                    tracing::warn!(error = %crate::text::clean_str(&error), "a cue of the demo was refused");
                }
            }
            engine.inner.playing.store(false, Ordering::SeqCst);
        });
    }
}
