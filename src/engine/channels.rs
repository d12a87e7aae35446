//! Delivery to channels: who can take a text, and what became of it.
//!
//! `webchat` is the browser itself: a post is delivered by being shown. Absent on purpose: real chat services,
//! and when to try again (announces and reports have rules of their own).

use super::lock;
use crate::model::event::Fate;
use crate::model::key::SessionKey;
use crate::model::session::{DeliveryContext, Entry};
use crate::text::Untrusted;
use std::sync::{Arc, Mutex};

/// The adapters an engine has.
#[derive(Clone, Default)]
pub struct Channels {
    recording: Option<Arc<Mutex<Recording>>>,
}

#[derive(Default)]
struct Recording {
    taken: Vec<Delivered>,
    /// So many deliveries fail first, as if the connection were lost.
    failures: u32,
    /// The only channels there are; empty: all.
    only: Vec<String>,
}

/// What a recording adapter took.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    pub route: DeliveryContext,
    pub text: String,
}

/// What became of one delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub fate: Fate,
    pub error: Option<String>,
    /// Trying again may help (N-25).
    pub transient: bool,
}

impl Delivery {
    fn of(fate: Fate) -> Self {
        Self {
            fate,
            error: None,
            transient: false,
        }
    }

    pub(super) fn failed(error: String, transient: bool) -> Self {
        Self {
            fate: Fate::Failed,
            error: Some(error),
            transient,
        }
    }
}

impl Channels {
    /// Every channel is taken by an adapter that only records; for tests and the built-in cast.
    pub fn recording() -> Self {
        Self {
            recording: Some(Arc::default()),
        }
    }

    /// A recording adapter that fails so many times first, and has only these channels (none: all).
    pub fn recording_with(failures: u32, only: &[&str]) -> Self {
        let recording = Recording {
            failures,
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            ..Recording::default()
        };
        Self {
            recording: Some(Arc::new(Mutex::new(recording))),
        }
    }

    /// What the recording adapter took so far.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.recording
            .as_ref()
            .map(|recording| lock(recording).taken.clone())
            .unwrap_or_default()
    }

    /// Hands a text to a route's channel, once.
    pub fn deliver(&self, route: &DeliveryContext, text: &str) -> Delivery {
        let channel = route.channel.as_ref().map(Untrusted::raw);
        let channel = channel.unwrap_or_default().trim().to_lowercase();
        let unknown = || {
            let name = Untrusted::from(channel.as_str()).clean();
            Delivery::failed(format!("no adapter for channel {name}"), false)
        };
        if let Some(recording) = &self.recording {
            let mut recording = lock(recording);
            if !recording.only.is_empty() && !recording.only.contains(&channel) {
                return unknown();
            }
            if recording.failures > 0 {
                recording.failures -= 1;
                return Delivery::failed("connection lost".into(), true);
            }
            recording.taken.push(Delivered {
                route: route.clone(),
                text: text.to_owned(),
            });
            return Delivery::of(Fate::Delivered);
        }
        match channel.as_str() {
            "webchat" => Delivery::of(Fate::Delivered),
            "" => Delivery::of(Fate::NoRoute),
            _ => unknown(),
        }
    }
}

/// Where an announce of a session goes: `None` stays in the transcript.
pub fn announce_route(key: &SessionKey, entry: Option<&Entry>) -> Option<DeliveryContext> {
    if let Some(parts) = key.group_parts()
        && let Some(channel) = parts.channel
    {
        let (id, thread) = split_thread(parts.id);
        let known = [
            "whatsapp", "telegram", "discord", "signal", "imessage", "slack",
        ]
        .contains(&channel);
        let to = if parts.is_channel || matches!(channel, "discord" | "slack") {
            format!("channel:{id}")
        } else if known {
            format!("group:{id}")
        } else {
            id.to_owned()
        };
        return Some(DeliveryContext {
            channel: Some(channel.into()),
            to: Some(to.into()),
            account_id: None,
            thread_id: thread.map(Untrusted::from),
        });
    }
    let route = entry?.route();
    let is_webchat = route
        .channel
        .as_ref()
        .is_some_and(|channel| channel.raw() == "webchat");
    (is_webchat || (route.channel.is_some() && route.to.is_some())).then_some(route)
}

/// A route that leads out of this program.
pub fn is_external(route: &DeliveryContext) -> bool {
    let leads_out = |channel: &Untrusted| !matches!(channel.raw(), "webchat" | "");
    route.channel.as_ref().is_some_and(leads_out) && route.to.is_some()
}

/// A numeric `:topic:` or `:thread:` suffix.
fn split_thread(id: &str) -> (&str, Option<&str>) {
    for marker in [":topic:", ":thread:"] {
        if let Some((head, tail)) = id.rsplit_once(marker)
            && !tail.is_empty()
            && tail.bytes().all(|b| b.is_ascii_digit())
        {
            return (head, Some(tail));
        }
    }
    (id, None)
}
