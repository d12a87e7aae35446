//! `agents_list` (specification, chapter 11), and who may spawn whom (P-20).

use super::context::Context;
use crate::config::Settings;
use crate::model::key::AgentId;
use crate::model::tools::{AgentRow, AgentsResult};
use crate::text::Untrusted;
use serde_json::{Value, json};

/// One call of `agents_list`: the payload (G-1). The own agent is first.
pub fn agents_list(settings: &Settings, context: &Context) -> Value {
    json!(agents(settings, &context.agent))
}

/// As [`agents_list`], typed.
pub fn agents(settings: &Settings, requester: &AgentId) -> AgentsResult {
    let allow_any = allows_any(settings, requester);
    let mut others: Vec<AgentId> = if settings.agents.is_empty() {
        Vec::new() // G-6
    } else if allow_any {
        settings
            .agents
            .iter()
            .map(|agent| agent.id.clone())
            .collect()
    } else {
        allow_list(settings, requester)
            .iter()
            .filter(|id| !id.trim().is_empty())
            .map(|id| AgentId::mend(id))
            .collect()
    };
    others.retain(|id| id != requester);
    others.sort();
    others.dedup();
    AgentsResult {
        requester: requester.to_string(),
        allow_any,
        agents: [requester.clone()]
            .into_iter()
            .chain(others)
            .map(|id| agent_row(settings, &id))
            .collect(),
    }
}

/// Whether an agent may spawn another (P-20): itself, or whom its allow list names. Whether the target is configured
/// is another question (P-21).
pub fn allowed(settings: &Settings, requester: &AgentId, target: &AgentId) -> bool {
    requester == target
        || allows_any(settings, requester)
        || allow_list(settings, requester)
            .iter()
            .any(|id| !id.trim().is_empty() && AgentId::mend(id) == *target)
}

/// The requester's own list, else the common one (C-29).
fn allow_list<'a>(settings: &'a Settings, requester: &AgentId) -> &'a [String] {
    settings
        .agent(requester)
        .and_then(|agent| agent.allow_agents.as_deref())
        .or(settings.subagents.allow_agents.as_deref())
        .unwrap_or_default()
}

fn allows_any(settings: &Settings, requester: &AgentId) -> bool {
    allow_list(settings, requester)
        .iter()
        .any(|id| id.trim() == "*")
}

fn agent_row(settings: &Settings, id: &AgentId) -> AgentRow {
    let agent = settings.agent(id);
    let model = agent
        .and_then(|agent| agent.model.as_deref())
        .or_else(|| agent.and(settings.default_model.as_deref()));
    AgentRow {
        id: id.to_string(),
        name: agent
            .and_then(|agent| agent.name.clone())
            .filter(|name| !name.is_blank()),
        configured: agent.is_some(),
        model: model.map(Untrusted::from),
    }
}
