//! Where things are: flags win over the environment, the environment over the defaults.
//!
//! Nothing is made here. An empty variable counts as not set.

use super::stop::Stop;
use crate::store::state::StateStore;
use etcetera::BaseStrategy;
use std::path::{Path, PathBuf};

/// The program's directories.
#[derive(Debug, Clone)]
pub struct Places {
    /// `$XDG_STATE_HOME/crosstalk`.
    home: PathBuf,
    /// `$XDG_CONFIG_HOME/crosstalk/config.json5`.
    config: PathBuf,
}

impl Places {
    /// From the environment.
    ///
    /// # Errors
    /// Exit 6 when there is no home directory at all.
    pub fn find() -> Result<Self, Stop> {
        let base = etcetera::base_strategy::Xdg::new()
            .map_err(|_| Stop::io("there is no home directory; set HOME"))?;
        let home = base.state_dir().unwrap_or_else(|| base.data_dir());
        Ok(Self {
            home: home.join("crosstalk"),
            config: base.config_dir().join("crosstalk").join("config.json5"),
        })
    }

    /// Where the embedded engine keeps its state unless told otherwise.
    pub fn state(&self) -> PathBuf {
        self.home.join("state")
    }

    /// Where the built-in cast lives.
    pub fn demo(&self) -> PathBuf {
        self.home.join("demo")
    }

    /// What a person's screen keeps.
    pub fn client(&self) -> PathBuf {
        self.home.join("client.db")
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.home.join("crosstalk.log")
    }

    /// The configuration file that is used when none is named.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The directory is the built-in cast's, and the cast is in it.
    pub fn holds_demo(&self, dir: &Path) -> bool {
        let same = match (dir.canonicalize(), self.demo().canonicalize()) {
            (Ok(dir), Ok(demo)) => dir == demo,
            _ => false,
        };
        same && StateStore::exists(dir)
    }
}

/// A path from the environment.
pub fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
