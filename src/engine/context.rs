//! Who is calling a tool, and from where (E-1).

use crate::config::Settings;
use crate::model::key::{AgentId, SessionKey};
use crate::model::run::RunId;
use crate::model::session::DeliveryContext;
use crate::text::Untrusted;

/// The context of a tool call.
#[derive(Debug, Clone)]
pub struct Context {
    /// The requester; for a person the default agent's main session.
    pub requester: SessionKey,
    /// Own agent.
    pub agent: AgentId,
    /// A person at the browser or command line, who sees everything and full keys (V-45).
    pub person: bool,
    /// P-22; always false for a person.
    pub sandboxed: bool,
    pub channel: Option<Untrusted>,
    pub route: Option<DeliveryContext>,
    pub workspace: Option<std::path::PathBuf>,
    /// The run inside which the call is made.
    pub run: Option<RunId>,
    /// Idempotency key of the call itself (E-5).
    pub call_id: Option<RunId>,
}

impl Context {
    /// A person.
    pub fn person(settings: &Settings) -> Self {
        let agent = settings.default_agent();
        Self {
            requester: settings.main_session(&agent),
            agent,
            person: true,
            sandboxed: false,
            channel: Some("webchat".into()),
            route: None,
            workspace: None,
            run: None,
            call_id: None,
        }
    }

    /// A session.
    pub fn session(settings: &Settings, key: SessionKey) -> Self {
        Self {
            agent: key.agent().unwrap_or_else(|| settings.default_agent()),
            sandboxed: settings.is_sandboxed(&key),
            requester: key,
            person: false,
            channel: None,
            route: None,
            workspace: None,
            run: None,
            call_id: None,
        }
    }

    /// Whose words display keys are in: `None` for a person (K-14, V-45).
    pub fn own(&self) -> Option<&AgentId> {
        (!self.person).then_some(&self.agent)
    }
}
