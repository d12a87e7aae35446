//! The browser's beginning: whom it asks, and what it is to look like. Running it is not a matter of the command line.

use super::args::Global;
use super::place::{Places, variable};
use super::source::Source;
use super::stop::Stop;
use crate::backend::SharedBackend;
use crate::config::{self, Settings};
use crate::host::{self, Lock, Open, Purpose};
use crate::text::Clean;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a throw-away engine may take to put its things away.
const CLOSING_LIMIT: Duration = Duration::from_secs(10);

/// What the browser is run with.
pub struct Browse {
    pub backend: SharedBackend,
    /// Name of the source, until it tells itself.
    pub source: Clean,
    /// Tells the drafts and sends of one source from those of another.
    pub source_id: String,
    /// What the screen keeps (`client.db`).
    pub client: PathBuf,
    /// Where the person's own keys and themes are, beside the configuration.
    pub config_dir: Option<PathBuf>,
    /// Settings of the front door: colours, masking.
    pub settings: Settings,
    pub observe: bool,
    pub ascii: bool,
    pub no_color: bool,
    /// The state lives as long as the browser.
    throw_away: Option<TempDir>,
}

/// Opens what the browser browses. Without a source and without a configuration that is the built-in cast in a
/// directory of its own; with `throw_away` the cast in a directory that is removed at the end.
///
/// # Errors
/// Exit 6 without a terminal; as [`Source::open`].
pub async fn prepare(global: &Global, throw_away: bool) -> Result<Browse, Stop> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Stop::io(
            "the browser needs a terminal; for scripts there are commands (crosstalk --help)",
        ));
    }
    let places = Places::find()?;
    let mut scratch = None;
    let source = if throw_away {
        if global.state.is_some() || global.config.is_some() || global.openclaw.is_some() {
            return Err(Stop::usage(
                "demo takes none of --state, --config and --openclaw: it has a directory of its own",
            ));
        }
        let dir = tempfile::Builder::new()
            .prefix("crosstalk-demo-")
            .tempdir()
            .map_err(|error| Stop::io(format!("cannot make a temporary directory: {error}")))?;
        let source = demo_in(dir.path().to_owned());
        scratch = Some(dir);
        source
    } else {
        match Source::find(global)? {
            Source::State { config: None, .. } if is_bare(global) && !places.config().exists() => {
                demo_in(places.demo())
            }
            source => source,
        }
    };
    let backend = match &scratch {
        Some(dir) => {
            host::open(Open {
                dir: dir.path().to_owned(),
                config: None,
                demo: true,
                purpose: Purpose::Own,
            })
            .await?
        }
        None => source.open(Purpose::Work).await?,
    };
    let (name, source_id) = match &source {
        Source::OpenClaw(dir) => ("openclaw files", format!("openclaw:{}", dir.display())),
        Source::State { demo: true, .. } => ("demo", "demo".into()),
        Source::State { dir, .. } => ("embedded", format!("state:{}", dir.display())),
    };
    // What the throw-away cast is told is thrown away, too.
    let client = scratch.as_ref().map_or_else(
        || places.client(),
        |dir| dir.path().with_extension("client").join("client.db"),
    );
    Ok(Browse {
        backend,
        source: Clean::fixed(name),
        source_id,
        client,
        config_dir: places.config().parent().map(PathBuf::from),
        settings: settings(&source, &places)?,
        observe: global.observe,
        ascii: global.ascii,
        no_color: global.no_color || variable("NO_COLOR").is_some(),
        throw_away: scratch,
    })
}

fn demo_in(dir: PathBuf) -> Source {
    Source::State {
        dir,
        config: None,
        demo: true,
    }
}

/// No source is named.
fn is_bare(global: &Global) -> bool {
    global.state.is_none() && global.openclaw.is_none() && variable("CROSSTALK_STATE_DIR").is_none()
}

/// What the front door itself takes from the configuration.
fn settings(source: &Source, places: &Places) -> Result<Settings, Stop> {
    let named = match source {
        Source::State {
            config,
            demo: false,
            ..
        } => config.as_deref(),
        Source::State { .. } => return Ok(Settings::default()),
        Source::OpenClaw(_) => None,
    };
    let default = Some(places.config()).filter(|file| file.exists());
    match named.or(default) {
        Some(file) => Ok(config::load(file).map_err(host::HostError::from)?),
        None => Ok(Settings::default()),
    }
}

impl Browse {
    /// Ends what lives no longer than the browser. Blocks.
    pub fn end(self) {
        let Some(dir) = self.throw_away else { return };
        drop(self.backend);
        let begun = Instant::now();
        while Lock::is_held(dir.path()).unwrap_or(false) && begun.elapsed() < CLOSING_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(dir.path().with_extension("client"));
        // What is left is in the temporary directory, which is cleared by others.
        let _ = dir.close();
    }
}
