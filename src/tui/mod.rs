//! The loop between terminal and browser: events in, effects out, frames when something changed.
//!
//! Nothing here decides anything: what an event means is [`crate::app`]'s, how it looks is [`crate::ui`]'s. The
//! terminal is given back on every way out (quit, error, panic, signal, suspend).

mod effects;
pub mod frames;
pub mod input;
mod signals;
pub mod terminal;

use crate::app::effect::{Effect, Quit};
use crate::app::event::{Event, What};
use crate::app::keymap::Keymap;
use crate::app::update::{update, update_in_burst};
use crate::app::{App, Setup, compose::Wait, sessions::Sort};
use crate::backend::SharedBackend;
use crate::clock::Clock;
use crate::config::Settings;
use crate::error::Exit;
use crate::model::event as backend;
use crate::store::client::ClientStore;
use crate::text::{Clean, clean_str};
use crate::ui::{Cache, ColorDepth, Theme, UiOptions};
use crossterm::event::EventStream;
use effects::Runner;
use frames::Frames;
use futures_util::StreamExt;
use signals::{Signal, Signals};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use terminal::Screen;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How the browser is run.
#[derive(Debug, Clone, Default)]
pub struct TuiOptions {
    /// Name of the source, until it tells itself.
    pub source: Clean,
    /// Tells the drafts and sends of one source from those of another.
    pub source_id: String,
    /// Colours, sorting, masking.
    pub settings: Settings,
    /// Where `keymap.toml` and `themes/` of the person are; they need not be there.
    pub config_dir: Option<PathBuf>,
    pub observe: bool,
    pub ascii: bool,
    pub no_color: bool,
    /// What the person should know at once.
    pub remarks: Vec<Clean>,
}

/// How the browser was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// By the person.
    Quit,
    /// By a signal, terminal restored.
    Signal(u8),
}

impl Left {
    /// The code to end with: 0, or 128 + the signal's number.
    pub const fn code(self) -> u8 {
        match self {
            Left::Quit => Exit::Done as u8,
            Left::Signal(number) => 128 + number,
        }
    }
}

/// Why the browser cannot run (any more).
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// A key file or theme that cannot be used.
    #[error("{0}")]
    Config(Clean),
    #[error("the browser needs a terminal; for scripts there are commands (crosstalk --help)")]
    NoTerminal,
    #[error("the terminal: {0}")]
    Io(#[from] std::io::Error),
}

impl TuiError {
    /// The code to end with.
    pub const fn exit(&self) -> Exit {
        match self {
            TuiError::Config(_) => Exit::Usage,
            TuiError::NoTerminal | TuiError::Io(_) => Exit::Io,
        }
    }
}

/// Reading the preferences may hold up the first frame for so long.
const PREFERENCES_LIMIT: Duration = Duration::from_millis(300);
/// Backend events that are taken in before the next look at keys and frames.
const BURST: usize = 64;

/// Runs the browser until it is left. Must be called on the thread that owns the terminal.
///
/// # Errors
/// [`TuiError`]; the terminal is restored.
pub async fn run(
    backend: SharedBackend,
    client: Option<ClientStore>,
    options: TuiOptions,
) -> Result<Left, TuiError> {
    let client = client.map(Arc::new);
    let keymap = keymap(&options)?;
    let look = look(&options)?;
    let preferences = Preferences::read(client.clone()).await;
    let mut signals = Signals::listen()?;
    terminal::install_panic_hook();
    let mut screen = Screen::enter(options.settings.ui.mouse.unwrap_or(true))?;
    let clock = Clock::system();
    let app = App::new(Setup {
        source: options.source,
        masker: options.settings.masker,
        observe: options.observe,
        size: screen.size(),
        now_ms: clock.now_ms(),
        tree: preferences.tree.or(options.settings.ui.tree),
        sort: preferences
            .sort
            .or_else(|| Sort::parse(options.settings.ui.sort.as_deref()?)),
        list_width: preferences.list_width,
        wait: preferences.wait,
        keymap: Some(keymap),
        seed: uuid::Uuid::new_v4().as_u128(),
    });
    let events = backend.events(None);
    let (runner, answers) = Runner::new(backend, client, options.source_id);
    let mut browser = Browser {
        app,
        cache: Cache::new(look),
        frames: Frames::default(),
        runner,
        clock,
        later: Vec::new(),
    };
    // The first frame does not wait for anybody.
    browser.draw(&mut screen)?;
    for remark in options.remarks {
        browser.take(What::Trouble(remark));
    }
    let left = browser
        .turn(&mut screen, &mut signals, answers, events)
        .await;
    drop(screen);
    if !matches!(left, Ok((Left::Quit, _))) {
        browser.take(What::Leaving);
    }
    let stops = matches!(left, Ok((_, Some(Quit::Stop))));
    browser.runner.finish(stops).await;
    left.map(|(left, _)| left)
}

/// What the loop turns around.
struct Browser {
    app: App,
    cache: Cache,
    frames: Frames,
    runner: Runner,
    clock: Clock,
    /// Effects that need the terminal.
    later: Vec<Effect>,
}

impl Browser {
    async fn turn(
        &mut self,
        screen: &mut Screen,
        signals: &mut Signals,
        mut answers: mpsc::Receiver<What>,
        mut events: mpsc::Receiver<backend::Event>,
    ) -> Result<(Left, Option<Quit>), TuiError> {
        let mut keys = EventStream::new();
        let mut is_live = true;
        self.take(What::Started);
        loop {
            for effect in std::mem::take(&mut self.later) {
                match effect {
                    Effect::Title(title) => screen.title(&title)?,
                    Effect::Copy(text) => screen.copy(&text)?,
                    Effect::Redraw => screen.clear()?,
                    Effect::Quit(how) => return Ok((Left::Quit, Some(how))),
                    Effect::Suspend => {
                        // Its thread must not read keys that are meant for the shell.
                        drop(keys);
                        terminal::restore();
                        signals::suspend()?;
                        screen.enter_again()?;
                        keys = EventStream::new();
                        self.take(What::Resumed);
                        self.take(What::Resize(screen.size()));
                    }
                    Effect::EditExternally(text) => {
                        drop(keys);
                        terminal::restore();
                        let result = effects::edit(&text).await;
                        screen.enter_again()?;
                        keys = EventStream::new();
                        self.take(What::Edited(result));
                        self.take(What::Resize(screen.size()));
                    }
                    // Done by the runner.
                    _ => {}
                }
            }
            let now = Instant::now();
            let due = self.frames.due(now);
            if due.is_some_and(|due| due <= now) {
                self.draw(screen)?;
                continue;
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Signal::End(number) => return Ok((Left::Signal(number), None)),
                    Signal::Continued => {
                        screen.enter_again()?;
                        self.take(What::Resize(screen.size()));
                    }
                },
                key = keys.next() => match key {
                    Some(Ok(event)) => {
                        if let Some(what) = input::read(event) {
                            self.take(what);
                        }
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok((Left::Signal(1), None)),
                },
                () = tokio::time::sleep_until(due.unwrap_or(now)), if due.is_some() => {}
                Some(what) = answers.recv() => self.take(what),
                event = events.recv(), if is_live => {
                    let mut event = event;
                    let mut taken = 0;
                    // Many events make one frame.
                    while let Some(one) = event.take() {
                        self.take(What::Backend(Box::new(one)));
                        taken += 1;
                        if taken < BURST {
                            event = events.try_recv().ok();
                        }
                    }
                    if taken == 0 {
                        is_live = false;
                        self.take(What::BackendGone);
                    }
                }
                () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => self.take(What::Tick),
            }
        }
    }

    /// Takes an event in and begins what follows from it. What those of the backend change is settled before the next
    /// frame, key or tick.
    fn take(&mut self, what: What) {
        let event = Event {
            now_ms: self.clock.now_ms(),
            what,
        };
        for effect in update_in_burst(&mut self.app, event) {
            self.later.extend(self.runner.run(effect));
        }
        self.frames.want();
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), TuiError> {
        self.app.now_ms = self.clock.now_ms();
        self.app.settle();
        let view = screen.draw(&self.app, &mut self.cache)?;
        self.frames.drawn(Instant::now());
        if view != self.app.view {
            let event = Event {
                now_ms: self.app.now_ms,
                what: What::Drawn(Box::new(view)),
            };
            for effect in update(&mut self.app, event) {
                self.later.extend(self.runner.run(effect));
            }
            self.frames.want_again();
        }
        Ok(())
    }

    /// How long until something shown changes by itself.
    fn wake(&self) -> Option<Duration> {
        let at = self.app.next_wake()?;
        let left = at.saturating_sub(self.clock.now_ms()).max(0);
        Some(Duration::from_millis(left.unsigned_abs()))
    }
}

/// What a person chose in earlier times.
#[derive(Debug, Default)]
struct Preferences {
    tree: Option<bool>,
    sort: Option<Sort>,
    list_width: Option<u16>,
    wait: Option<Wait>,
}

impl Preferences {
    /// Reads them; none when that takes too long or fails: they are not worth a wait.
    async fn read(client: Option<Arc<ClientStore>>) -> Self {
        let Some(client) = client else {
            return Self::default();
        };
        let reading = tokio::task::spawn_blocking(move || {
            let get = |name| client.preference(name).ok().flatten();
            Self {
                tree: get("tree").and_then(|word| word.parse().ok()),
                sort: get("sort").and_then(|word| Sort::parse(&word)),
                list_width: get("list_width").and_then(|word| word.parse().ok()),
                wait: get("wait")
                    .and_then(|word| Wait::ALL.into_iter().find(|wait| wait.as_str() == word)),
            }
        });
        match tokio::time::timeout(PREFERENCES_LIMIT, reading).await {
            Ok(Ok(preferences)) => preferences,
            _ => Self::default(),
        }
    }
}

fn keymap(options: &TuiOptions) -> Result<Keymap, TuiError> {
    let Some(file) = options
        .config_dir
        .as_ref()
        .map(|dir| dir.join("keymap.toml"))
    else {
        return Ok(Keymap::builtin());
    };
    let say = |why: Clean| {
        TuiError::Config(crate::clean_format!(
            "{}: {}",
            clean_str(&file.to_string_lossy()),
            why
        ))
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => Keymap::with(&text).map_err(|error| say(error.0)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Keymap::builtin()),
        Err(error) => Err(say(clean_str(&error.to_string()))),
    }
}

fn look(options: &TuiOptions) -> Result<UiOptions, TuiError> {
    let variable = |name: &str| std::env::var(name).ok();
    let depth = if options.no_color {
        ColorDepth::None
    } else {
        ColorDepth::detect(variable)
    };
    let name = options
        .settings
        .ui
        .theme
        .clone()
        .unwrap_or_else(|| "dusk".into());
    // A theme of the person's own may have any name that is no path.
    let own = options
        .config_dir
        .as_ref()
        .map(|dir| dir.join("themes").join(format!("{name}.toml")))
        .filter(|file| !name.contains('/') && file.is_file());
    let name = own.map_or(name, |file| file.to_string_lossy().into_owned());
    let theme = Theme::load(&name, depth)
        .map_err(|error| TuiError::Config(clean_str(&error.to_string())))?;
    Ok(UiOptions {
        theme,
        ascii: options.ascii
            || options
                .settings
                .ui
                .ascii
                .unwrap_or_else(|| !speaks_utf8(variable)),
    })
}

/// The locale's encoding; one that says nothing counts as UTF-8, which terminals have spoken for twenty years.
fn speaks_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .is_none_or(|locale| {
            let locale = locale.to_lowercase().replace('-', "");
            locale.contains("utf8")
        })
}
