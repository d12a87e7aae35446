//! `screen`: a picture of a view, as the browser would draw it.
//!
//! The browser runs here without a terminal: keys are pressed by name, time goes on until the answers are in. With
//! `--demo` the cast plays in a directory of its own, from a fixed point in time, so that pictures made at different
//! times are alike.

use super::args::{Screen, View};
use super::output::Printer;
use super::source::Context;
use super::stop::Stop;
use crate::agents::scripted::Cast;
use crate::app::effect::Effect;
use crate::app::event::{Event, What};
use crate::app::geometry::Size;
use crate::app::key::KeyPress;
use crate::app::update::update;
use crate::app::{App, Setup};
use crate::backend::SharedBackend;
use crate::backend::embedded::EmbeddedBackend;
use crate::clock::Clock;
use crate::engine::{Engine, Options};
use crate::host::Purpose;
use crate::model::event as backend;
use crate::store::state::StateStore;
use crate::text::{Clean, escape_json};
use crate::ui::{self, Cache, ColorDepth, Theme, UiOptions};
use jiff::tz::TimeZone;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// 2026-03-02 09:41:00 UTC: a Monday morning, like the cast's.
const MORNING_MS: i64 = 1_772_444_460_000;
/// Nothing has come in for so long: everything that was asked for is there.
const QUIET: Duration = Duration::from_millis(300);
/// How long that is waited for where something always moves.
const QUIET_LIMIT: Duration = Duration::from_secs(3);
/// Most seconds of the cast.
const LONGEST_S: f64 = 600.0;
const TITLE: &str = "crosstalk";

/// Draws.
///
/// # Errors
/// [`Stop`]; exit 6 when the file cannot be written.
pub async fn screen(context: &Context, printer: &mut Printer, args: Screen) -> Result<(), Stop> {
    let size = Size {
        columns: args.size.0,
        rows: args.size.1,
    };
    let ascii = printer.ascii;
    let picture = if args.demo {
        let dir = tempfile::Builder::new()
            .prefix("crosstalk-screen-")
            .tempdir()
            .map_err(|error| Stop::io(format!("cannot make a temporary directory: {error}")))?;
        let clock = Clock::of_tokio(MORNING_MS);
        let engine = cast(dir.path(), clock.clone()).await?;
        let backend = Arc::new(EmbeddedBackend::new(engine.clone()));
        let mut browser = Browser::new(backend, clock, size, ascii, TimeZone::UTC);
        let playing = Duration::from_secs_f64(args.at.clamp(0.0, LONGEST_S));
        browser.until(Instant::now() + playing).await;
        let picture = browser.picture(args.view).await?;
        engine.shutdown().await;
        picture
    } else {
        let backend = context.source.open(Purpose::Read).await?;
        let clock = Clock::system();
        let mut browser = Browser::new(backend, clock, size, ascii, TimeZone::system());
        browser.settle().await;
        browser.picture(args.view).await?
    };
    match &args.output {
        Some(file) => std::fs::write(file, picture)
            .map_err(|error| Stop::io(format!("cannot write {}: {error}", file.display()))),
        // Markup, not text for people: what it shows was cleaned where it was drawn.
        None => printer.block(&escape_json(picture.trim_end())),
    }
}

/// The built-in cast, playing in a directory.
async fn cast(dir: &Path, clock: Clock) -> Result<Engine, Stop> {
    let cast = Arc::new(Cast::built_in());
    let settings = cast.settings();
    let store = StateStore::open_scoped(dir, &settings.main_key, settings.scope_global)?;
    let options = Options {
        clock,
        cast: Some(cast),
        ..Options::default()
    };
    Ok(Engine::open(store, settings, options).await?)
}

/// The browser without a terminal.
struct Browser {
    app: App,
    cache: Cache,
    theme: Theme,
    backend: SharedBackend,
    clock: Clock,
    events: mpsc::Receiver<backend::Event>,
    answer: mpsc::Sender<What>,
    answers: mpsc::Receiver<What>,
}

impl Browser {
    fn new(backend: SharedBackend, clock: Clock, size: Size, ascii: bool, zone: TimeZone) -> Self {
        let theme = Theme::dusk(ColorDepth::True);
        let options = UiOptions {
            theme: theme.clone(),
            ascii,
        };
        let (answer, answers) = mpsc::channel(64);
        let mut browser = Self {
            app: App::new(Setup {
                source: Clean::fixed("embedded"),
                size,
                now_ms: clock.now_ms(),
                ..Setup::default()
            }),
            cache: Cache::in_zone(options, zone),
            theme,
            events: backend.events(None),
            backend,
            clock,
            answer,
            answers,
        };
        browser.take(What::Started);
        browser
    }

    /// Takes an event in, and does what follows from it: only asking, for nothing else shows.
    fn take(&mut self, what: What) {
        let event = Event {
            now_ms: self.clock.now_ms(),
            what,
        };
        for effect in update(&mut self.app, event) {
            if let Effect::Call { ticket, call } = effect {
                let (backend, answer) = (Arc::clone(&self.backend), self.answer.clone());
                tokio::spawn(async move {
                    let result = backend.call(*call).await.map(Box::new);
                    // Who made the picture has left.
                    let _ = answer.send(What::Replied { ticket, result }).await;
                });
            }
        }
    }

    /// Lays out what there is, so that the state knows what stands where.
    fn draw(&mut self) {
        let (view, _) = ui::picture(&self.app, &mut self.cache);
        if view != self.app.view {
            self.take(What::Drawn(Box::new(view)));
        }
    }

    /// One thing that happens, or nothing more until the deadline.
    async fn turn(&mut self, deadline: Instant) -> bool {
        self.draw();
        let wake = self
            .app
            .next_wake()
            .map_or(i64::MAX, |at| at - self.clock.now_ms());
        let wake = Instant::now() + Duration::from_millis(wake.clamp(1, 60_000).unsigned_abs());
        tokio::select! {
            Some(what) = self.answers.recv() => self.take(what),
            Some(event) = self.events.recv() => self.take(What::Backend(Box::new(event))),
            () = sleep_until(wake.min(deadline)) => {
                self.take(What::Tick);
                return Instant::now() < deadline;
            }
        }
        true
    }

    async fn until(&mut self, deadline: Instant) {
        while Instant::now() < deadline {
            self.turn(deadline).await;
        }
    }

    /// Until nothing comes in any more.
    async fn settle(&mut self) {
        let settling = async { while self.turn(Instant::now() + QUIET).await {} };
        // Where the cast plays, something always comes in.
        let _ = timeout(QUIET_LIMIT, settling).await;
    }

    async fn picture(&mut self, view: View) -> Result<String, Stop> {
        // The session with the newest news is the one that shows most.
        let keys: &[&str] = match view {
            View::Browse => &["Home"],
            View::Spawn => &["Home", "s"],
            View::Details => &["Home", "d"],
            View::Help => &["?"],
        };
        for key in keys {
            let press = KeyPress::parse(key).map_err(|why| Stop::io(why.into_string()))?;
            self.take(What::Key(press));
            self.settle().await;
        }
        self.draw();
        let (_, buffer) = ui::picture(&self.app, &mut self.cache);
        Ok(ui::svg(&buffer, &self.theme, TITLE))
    }
}
