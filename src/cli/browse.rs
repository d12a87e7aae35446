//! The browser's beginning: whom it asks, and what it is to look like. Running it is not a matter of the command line.

use super::args::Global;
use super::place::{Places, variable};
use super::source::Source;
use super::stop::Stop;
use crate::backend::SharedBackend;
use crate::config::{self, Settings};
use crate::host::{self, Lock, Purpose};
use crate::store::client::ClientStore;
use crate::text::{Clean, clean_str};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The state in a throw-away directory.
const STATE: &str = "state";
/// How long a throw-away engine may take to put its things away.
const CLOSING_LIMIT: Duration = Duration::from_secs(10);

/// What the browser is run with.
pub struct Browse {
    pub backend: SharedBackend,
    /// What the screen keeps; `None` when it cannot be kept, which is among the remarks.
    pub client: Option<ClientStore>,
    /// Name of the source, until it tells itself.
    pub source: Clean,
    /// Tells the drafts and sends of one source from those of another.
    pub source_id: String,
    /// Settings of the front door: colours, masking.
    pub settings: Settings,
    /// Where the person's keys and themes are.
    pub config_dir: Option<PathBuf>,
    pub observe: bool,
    pub ascii: bool,
    pub no_color: bool,
    /// What is to be said at the beginning.
    pub remarks: Vec<Clean>,
    pub throw_away: Option<ThrowAway>,
}

/// A state directory that lives as long as the browser.
pub struct ThrowAway(TempDir);

/// Opens what the browser browses. Without a source and without a configuration that is the built-in cast in a
/// directory of its own; with `throw_away` the cast in a directory that is removed at the end.
///
/// # Errors
/// Exit 6 without a terminal; as [`crate::host::open`].
pub async fn prepare(global: &Global, throw_away: bool) -> Result<Browse, Stop> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Stop::io(
            "the browser needs a terminal; for scripts there are commands (crosstalk --help)",
        ));
    }
    if global.caller.is_some() {
        return Err(Stop::usage(
            "the browser is the operator's; --as goes with list, history, send, spawn, agents and call",
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
        let source = demo_in(dir.path().join(STATE));
        scratch = Some(ThrowAway(dir));
        source
    } else {
        match Source::find(global)? {
            Source::State { config: None, .. } if is_bare(global) && !places.config().exists() => {
                demo_in(places.demo())
            }
            source => source,
        }
    };
    let settings = settings(&source, &places)?;
    let purpose = match scratch {
        Some(_) => Purpose::Own,
        None => Purpose::Work,
    };
    let backend = source.open(purpose).await?;
    let (name, source_id) = match &source {
        Source::OpenClaw(dir) => ("openclaw files", format!("openclaw:{}", dir.display())),
        Source::State { demo: true, .. } => ("demo", "demo".into()),
        Source::State { dir, .. } => ("embedded", format!("state:{}", dir.display())),
    };
    // What the throw-away cast is told is thrown away, too.
    let kept = match &scratch {
        Some(ThrowAway(dir)) => dir.path().join("client.db"),
        None => places.client(),
    };
    let mut remarks = Vec::new();
    let client = match ClientStore::open(&kept) {
        Ok(client) => Some(client),
        Err(error) => {
            remarks.push(clean_str(&format!(
                "drafts and sends are not kept: {error}"
            )));
            None
        }
    };
    let config = match &source {
        Source::State {
            config: Some(file), ..
        } => file.as_path(),
        _ => places.config(),
    };
    Ok(Browse {
        backend,
        client,
        source: Clean::fixed(name),
        source_id,
        settings,
        config_dir: config.parent().map(Path::to_owned),
        observe: global.observe,
        ascii: global.ascii,
        no_color: global.no_color || variable("NO_COLOR").is_some(),
        remarks,
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

impl ThrowAway {
    /// Removes it once the engine has let go of it, which it does when the last backend is gone. Blocks.
    pub fn end(self) {
        let begun = Instant::now();
        while Lock::is_held(&self.0.path().join(STATE)).unwrap_or(false)
            && begun.elapsed() < CLOSING_LIMIT
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        // What is left is in the temporary directory, which others clear.
        let _ = self.0.close();
    }
}
