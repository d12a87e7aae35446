use super::*;
use crosstalk::config::{AgentSettings, Runtime};
use crosstalk::engine::agents_list::{agents_list, allowed};
use crosstalk::model::key::AgentId;

fn agent(id: &str, allow: Option<&[&str]>) -> AgentSettings {
    AgentSettings {
        id: AgentId::parse(id).unwrap(),
        default: false,
        name: None,
        workspace: None,
        model: None,
        runtime: Runtime::None,
        sandbox_mode: None,
        sandbox_wrapper: None,
        allow_agents: allow.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
        subagent_model: None,
        subagent_thinking: None,
        require_agent_id: None,
    }
}

/// `id` or `id?` (not configured), in order, and `*` when any may be spawned.
fn shown(agents: Vec<AgentSettings>, requester: &str, defaults: Option<&[&str]>) -> String {
    let mut settings = Settings {
        agents,
        ..Settings::default()
    };
    settings.subagents.allow_agents =
        defaults.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
    let context = Context::session(&settings, key(requester));
    let payload = agents_list(&settings, &context);
    assert_no_null(&payload);
    let mut words: Vec<String> = payload["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let id = row["id"].as_str().unwrap();
            // G-5: what is listed may be spawned.
            assert!(
                allowed(&settings, &context.agent, &AgentId::mend(id)),
                "{id}"
            );
            let mark = if row["configured"] == true { "" } else { "?" };
            format!("{id}{mark}")
        })
        .collect();
    if payload["allowAny"] == true {
        words.push("*".into());
    }
    words.join(" ")
}

#[test]
fn ac_126_agents_list() {
    let team = |allow: &[&str]| vec![agent("m", Some(allow)), agent("b", None), agent("a", None)];
    assert_eq!(shown(vec![], "agent:main:main", None), "main?");
    assert_eq!(
        shown(vec![], "agent:main:main", Some(&["x", "*"])),
        "main? *"
    );
    assert_eq!(
        shown(team(&["b", "A", "ghost", "b", " "]), "agent:m:main", None),
        "m a b ghost?"
    );
    assert_eq!(
        shown(team(&["*", "ghost"]), "agent:m:main", None),
        "m a b *"
    );
    assert_eq!(shown(team(&[]), "agent:m:main", Some(&["a"])), "m");
    assert_eq!(shown(team(&["*"]), "agent:a:main", None), "a");
    assert_eq!(shown(team(&["*"]), "agent:a:main", Some(&["b"])), "a b");
    assert_eq!(shown(team(&["*"]), "agent:z:main", None), "z?");
}

#[test]
fn ac_95_who_may_spawn_whom() {
    let may = |allow: Option<&[&str]>, target: &str| {
        let settings = Settings {
            agents: vec![agent("m", allow), agent("other", Some(&["*"]))],
            ..Settings::default()
        };
        allowed(&settings, &AgentId::mend("m"), &AgentId::mend(target))
    };
    assert!(may(None, "m"));
    assert!(!may(None, "ops"));
    assert!(may(Some(&["OPS"]), "ops"));
    assert!(may(Some(&[" * "]), "ops"));
    assert!(!may(Some(&[""]), "main"));
}

#[test]
fn g_7_name_and_model() {
    let mut named = agent("m", None);
    named.name = Some("The boss".into());
    named.model = Some("acme/large".into());
    let mut blank = agent("b", None);
    blank.name = Some("  ".into());
    let settings = Settings {
        agents: vec![named, blank],
        ..Settings::default()
    };
    let of = |key_text: &str| agents_list(&settings, &Context::session(&settings, key(key_text)));
    let row = of("agent:m:main")["agents"][0].clone();
    assert_eq!(row["name"], "The boss");
    assert_eq!(row["model"], "acme/large");
    assert_eq!(of("agent:b:main")["agents"][0].get("name"), None);
}
