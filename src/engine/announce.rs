//! Announces: the one of an exchange and replies to a channel (SP-33).

use super::channels::{Delivery, announce_route, is_external};
use super::events::About;
use super::runs::check_policy;
use super::send::{ANNOUNCE_SKIP, SILENT};
use super::{Engine, shown};
use crate::model::event::{AnnounceKind, Fate, What};
use crate::model::key::SessionKey;
use crate::model::run::{Outcome, Run, RunId};
use crate::model::session::DeliveryContext;
use crate::text::Untrusted;

impl Engine {
    /// Delivers what the announce step said: best effort, once.
    pub(super) async fn announce_a2a(&self, target: &SessionKey, step: Option<(RunId, Untrusted)>) {
        let wanted = target.clone();
        let entry = self
            .inner
            .store
            .read(move |tx| tx.entry(&wanted))
            .await
            .ok()
            .flatten();
        let route = announce_route(target, entry.as_ref());
        let mut about = About::session(target);
        let (text, silent) = match step {
            None => (None, true),
            Some((run_id, text)) => {
                about.run = Some(run_id);
                let trimmed = text.raw().trim().to_owned();
                let silent = matches!(trimmed.as_str(), "" | ANNOUNCE_SKIP | SILENT);
                (Some(trimmed), silent)
            }
        };
        let (fate, error) = match (&text, &route) {
            (Some(text), Some(route)) if !silent => {
                let delivery = self.deliver(target, route, text).await;
                (delivery.fate, delivery.error)
            }
            (Some(_), None) if !silent => (Fate::NoRoute, None),
            _ => (Fate::Skipped, None),
        };
        let what = What::Announce {
            kind: AnnounceKind::A2a,
            from: shown(target),
            to: route.as_ref().and_then(|route| route.to.clone()),
            channel: route.and_then(|route| route.channel),
            fate,
            text: text.filter(|_| !silent).map(Untrusted::new),
            error: error.map(Untrusted::new),
        };
        self.publish(about, what);
    }

    /// One delivery, policy looked at anew (SP-33, SP-35).
    pub(super) async fn deliver(
        &self,
        session: &SessionKey,
        route: &DeliveryContext,
        text: &str,
    ) -> Delivery {
        let wanted = session.clone();
        let entry = self
            .inner
            .store
            .read(move |tx| tx.entry(&wanted))
            .await
            .ok()
            .flatten();
        let channel = route.channel.as_ref().map(Untrusted::raw);
        if check_policy(&self.settings(), session, entry.as_ref(), channel).is_err() {
            tracing::info!(session = %session.clean(), "a delivery was dropped by the send policy");
            let error = "the session's send policy denies it".to_owned();
            return Delivery {
                fate: Fate::Denied,
                error: Some(error),
                transient: false,
            };
        }
        let delivery = self.inner.channels.deliver(route, text);
        if let Some(error) = &delivery.error {
            tracing::warn!(session = %session.clean(), error = %crate::text::clean_str(error), "a delivery failed");
        }
        delivery
    }

    /// The reply of a run that a channel message caused goes back there; so does what a requester's agent says of a
    /// child's report (N-20), when the session has a route that leads out.
    pub(super) async fn deliver_reply(&self, run: Run) {
        let (Some(Outcome::Ok), Some(reply)) = (run.outcome, &run.reply) else {
            return;
        };
        let key = &run.session_key;
        if reply.raw().trim() == SILENT || key.is_subagent() || key.rest().starts_with("cron:") {
            return;
        }
        let wanted = key.clone();
        let Ok(Some(entry)) = self.inner.store.read(move |tx| tx.entry(&wanted)).await else {
            return;
        };
        if let Some(route) = announce_route(key, Some(&entry)).filter(is_external) {
            self.deliver(key, &route, reply.raw()).await;
        }
    }
}
