//! Delivery to channels: who can take a text, and what became of it. One try, no retries.
//!
//! `webchat` is the browser itself: a post is delivered by being shown. Absent on purpose: real chat services.

use crate::model::event::Fate;
use crate::model::key::SessionKey;
use crate::model::session::{DeliveryContext, Entry};
use crate::text::Untrusted;
use std::sync::{Arc, Mutex, PoisonError};

/// The adapters an engine has.
#[derive(Clone, Default)]
pub struct Channels {
    recording: Option<Arc<Mutex<Vec<Delivered>>>>,
}

/// What a recording adapter took.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    pub route: DeliveryContext,
    pub text: String,
}

impl Channels {
    /// Every channel is taken by an adapter that only records; for tests and the built-in cast.
    pub fn recording() -> Self {
        Self {
            recording: Some(Arc::default()),
        }
    }

    /// What the recording adapter took so far.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.recording
            .as_ref()
            .map(|taken| taken.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }

    /// Hands a text to a route's channel.
    pub fn deliver(&self, route: &DeliveryContext, text: &str) -> (Fate, Option<String>) {
        let channel = route
            .channel
            .as_ref()
            .map(|channel| channel.raw().trim().to_lowercase())
            .unwrap_or_default();
        if let Some(taken) = &self.recording {
            let delivered = Delivered {
                route: route.clone(),
                text: text.to_owned(),
            };
            taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(delivered);
            return (Fate::Delivered, None);
        }
        match channel.as_str() {
            "webchat" => (Fate::Delivered, None),
            "" => (Fate::NoRoute, None),
            other => (
                Fate::Failed,
                Some(format!(
                    "no adapter is configured for channel {other} (channels.{other}.deliver)"
                )),
            ),
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
