//! What drawing keeps between frames: laid out bodies of messages.
//!
//! Invariant: throwing everything away at any moment changes no cell. An entry holds all that its lines depend on and
//! is made anew when one of it differs. Absent on purpose: state of the browser.

use super::line::Line;
use super::message::{self, Ink, Look};
use super::theme::Theme;
use crate::model::message::{Content, Message};
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::sync::Arc;

/// How the screen looks, decided once.
#[derive(Debug, Clone)]
pub struct UiOptions {
    pub theme: Theme,
    /// ASCII instead of symbols.
    pub ascii: bool,
}

/// Lines that can be shared.
pub type Lines = Arc<Vec<Line>>;

/// See the module.
#[derive(Debug)]
pub struct Cache {
    pub(super) options: UiOptions,
    pub(super) zone: TimeZone,
    generation: u64,
    bodies: HashMap<u64, (Look, Option<&'static str>, Lines)>,
    streams: HashMap<String, (u64, Look, Lines)>,
}

/// Bodies kept at most; a screen shows a few dozen.
const KEPT: usize = 2_000;

impl Cache {
    /// An empty one; times are shown in the system's zone.
    pub fn new(options: UiOptions) -> Self {
        Self::in_zone(options, TimeZone::system())
    }

    /// As [`Cache::new`], with the zone given.
    pub fn in_zone(options: UiOptions, zone: TimeZone) -> Self {
        Self {
            options,
            zone,
            generation: 0,
            bodies: HashMap::new(),
            streams: HashMap::new(),
        }
    }

    /// Another theme; what was laid out in the old one goes.
    pub fn set_theme(&mut self, theme: Theme) {
        self.options.theme = theme;
        self.clear();
    }

    /// Throws everything away.
    pub fn clear(&mut self) {
        self.bodies.clear();
        self.streams.clear();
    }

    /// Drops what belongs to another transcript.
    pub(super) fn begin(&mut self, generation: u64) {
        if self.generation != generation || self.bodies.len() > KEPT {
            self.clear();
            self.generation = generation;
        }
    }

    pub(super) fn body(
        &mut self,
        message: &Message,
        look: Look,
        masker: &crate::text::mask::Masker,
    ) -> Lines {
        // A line that was torn when it was read may be whole now: the same position, other content.
        let damage = match message.content {
            Content::Damage { reason, .. } => Some(reason),
            _ => None,
        };
        if let Some((kept, was, lines)) = self.bodies.get(&message.position)
            && *kept == look
            && *was == damage
        {
            return lines.clone();
        }
        let ink = Ink {
            theme: &self.options.theme,
            masker,
        };
        let lines = Arc::new(message::body(message, &look, ink));
        self.bodies
            .insert(message.position, (look, damage, lines.clone()));
        lines
    }

    pub(super) fn stream(
        &mut self,
        run: &str,
        revision: u64,
        look: Look,
        make: impl FnOnce(&Theme, &Look) -> Vec<Line>,
    ) -> Lines {
        if let Some((kept, was, lines)) = self.streams.get(run)
            && *kept == revision
            && *was == look
        {
            return lines.clone();
        }
        let lines = Arc::new(make(&self.options.theme, &look));
        self.streams
            .insert(run.to_owned(), (revision, look, lines.clone()));
        lines
    }

    /// Drops streams that ended.
    pub(super) fn keep_streams(&mut self, alive: impl Fn(&str) -> bool) {
        self.streams.retain(|run, _| alive(run));
    }
}
