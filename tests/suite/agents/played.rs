//! The built-in cast in the real engine, on a paused clock: what the timeline and the lines promise does happen.

use super::*;
use crosstalk::agents::scripted::Cast;
use crosstalk::clock::Clock;
use crosstalk::engine::channels::Channels;
use crosstalk::engine::{Engine, Options};
use crosstalk::model::event::{AnnounceKind, Event, Fate, ToolPhase, What};
use crosstalk::model::run::{Outcome, RunOrigin};
use crosstalk::store::state::StateStore;
use std::time::Duration;

/// All events of the story, and what reached the channels.
async fn play() -> (Vec<Event>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let cast = Arc::new(Cast::built_in());
    let channels = Channels::recording();
    let options = Options {
        clock: Clock::of_tokio(1_790_000_000_000),
        cast: Some(Arc::clone(&cast)),
        channels: channels.clone(),
        ..Options::default()
    };
    let store = StateStore::open(dir.path(), "main").unwrap();
    let engine = Engine::open(store, cast.settings(), options).await.unwrap();
    let mut events = engine.events(None);
    let mut log = Vec::new();
    let watch = async {
        while let Some(event) = events.recv().await {
            log.push(event);
        }
    };
    // The stream of events has no end of its own; the story has.
    let over = tokio::time::timeout(Duration::from_secs(130), watch).await;
    assert!(over.is_err(), "the engine ended by itself");
    engine.shutdown().await;
    let delivered = channels.delivered().into_iter();
    (log, delivered.map(|one| one.text).collect())
}

#[tokio::test(start_paused = true)]
async fn the_story_plays_in_the_engine() {
    let (log, delivered) = play().await;
    let count = |is: &dyn Fn(&What) -> bool| log.iter().filter(|event| is(&event.what)).count();

    // Every cue of a person or a channel became a run, and no tool was refused.
    let accepted = |origin: RunOrigin| {
        count(&|what| matches!(what, What::RunAccepted { origin: o, .. } if *o == origin))
    };
    let cues = Cast::built_in().timeline().len();
    assert_eq!(
        accepted(RunOrigin::Operator) + accepted(RunOrigin::Channel),
        cues
    );
    assert_eq!(
        count(&|what| matches!(
            what,
            What::RunTool {
                phase: ToolPhase::Error,
                ..
            }
        )),
        0
    );
    assert_eq!(count(&|what| matches!(what, What::Resync { .. })), 0);

    // Two runs fail, as the story wants it; none is cut off.
    let ended = |outcome: Outcome| {
        count(&|what| matches!(what, What::RunEnded { outcome: o, .. } if *o == outcome))
    };
    let runs = count(&|what| matches!(what, What::RunAccepted { .. }));
    assert_eq!((ended(Outcome::Error), ended(Outcome::Ok)), (2, runs - 2));

    // Exchanges: each ends in a skip, one after four answered turns.
    let skipped = count(&|what| matches!(what, What::A2aTurn { skipped: true, .. }));
    assert_eq!((accepted(RunOrigin::Send), skipped), (5, 5));
    assert_eq!(
        count(&|what| matches!(
            what,
            What::A2aTurn {
                turn: 5,
                skipped: true,
                ..
            }
        )),
        1
    );
    let fate = |kind: AnnounceKind, fate: Fate| {
        count(
            &|what| matches!(what, What::Announce { kind: k, fate: f, .. } if *k == kind && *f == fate),
        )
    };
    assert_eq!(
        (
            fate(AnnounceKind::A2a, Fate::Delivered),
            fate(AnnounceKind::A2a, Fate::Skipped)
        ),
        (3, 2)
    );
    for part in [
        "as good as last night",
        "🌙 Digest",
        "🚀 checkout 2.14.0 is out",
    ] {
        assert!(
            delivered.iter().any(|text| text.contains(part)),
            "{part}: {delivered:#?}"
        );
    }

    // Spawns: each reports, and is told in the requester's own words.
    assert_eq!(count(&|what| matches!(what, What::Spawn { .. })), 5);
    assert_eq!(fate(AnnounceKind::Subagent, Fate::Delivered), 5);
    assert_eq!(accepted(RunOrigin::Report), 5);

    // Nobody was at a loss for words.
    let lost = count(&|what| match what {
        What::MessageAppended { message, .. } => {
            message.line.to_string().contains("built-in cast and")
        }
        _ => false,
    });
    assert_eq!(lost, 0);
}
