use super::*;
use crosstalk::engine::reference;
use crosstalk::model::tools::ToolStatus;
use crosstalk::model::visibility::Doing;

/// What a cell of the table says: `None` allows, else the words the denial must hold besides the action.
type Cell = Option<&'static str>;

const SELF: Cell = Some("tools.sessions.visibility=self");
const TREE: Cell = Some("tools.sessions.visibility=tree");
const SCOPE: Cell = Some("tools.sessions.visibility=all");
const SWITCH: Cell = Some("tools.agentToAgent.enabled=true");
const LIST: Cell = Some("tools.agentToAgent.allow");

/// A line of the table of §13.3: rule, target, whether the requester spawned it, the cross-agent policy, and the cells
/// of `self`, `tree`, `agent`, `all`.
type Line = (
    &'static str,
    &'static str,
    bool,
    (bool, &'static [&'static str]),
    [Cell; 4],
);

const TABLE: [Line; 7] = [
    ("V-20", "agent:main:main", false, (false, &[]), [None; 4]),
    (
        "V-21",
        "agent:main:subagent:1",
        true,
        (false, &[]),
        [SELF, None, None, None],
    ),
    (
        "V-22",
        "agent:main:telegram:group:1",
        false,
        (false, &[]),
        [SELF, TREE, None, None],
    ),
    (
        "V-23",
        "agent:ops:subagent:1",
        true,
        (false, &[]),
        [SCOPE, None, SCOPE, None],
    ),
    (
        "V-24",
        "agent:ops:main",
        false,
        (false, &[]),
        [SCOPE, SCOPE, SCOPE, SWITCH],
    ),
    (
        "V-25",
        "agent:ops:main",
        false,
        (true, &["main"]),
        [SCOPE, SCOPE, SCOPE, LIST],
    ),
    (
        "V-26",
        "agent:ops:main",
        false,
        (true, &["main", "o*"]),
        [SCOPE, SCOPE, SCOPE, None],
    ),
];

const LEVELS: [Level; 4] = [Level::SelfOnly, Level::Tree, Level::Agent, Level::All];

fn cells() -> impl Iterator<Item = (String, World, &'static str, Cell)> {
    TABLE
        .into_iter()
        .flat_map(|(rule, target, spawned, (enabled, allow), cells)| {
            LEVELS.into_iter().zip(cells).map(move |(level, cell)| {
                let mut entry = json!({});
                if spawned {
                    entry["spawnedBy"] = json!("agent:main:main");
                }
                let world = World::new()
                    .level(level)
                    .cross(enabled, allow)
                    .with(target, entry);
                (format!("{rule} {}", level.as_str()), world, target, cell)
            })
        })
}

#[test]
fn ac_127_list() {
    for (name, world, _, cell) in cells() {
        let listed = world.list(json!({}))["count"].as_u64().unwrap();
        assert_eq!(listed, u64::from(cell.is_none()), "{name}");
    }
}

#[test]
fn ac_127_history() {
    for (name, world, target, cell) in cells() {
        let answer = world.history(json!({ "sessionKey": target }));
        match cell {
            None => assert!(answer["messages"].is_array(), "{name}: {answer}"),
            Some(words) => {
                assert_eq!(answer["status"], "forbidden", "{name}");
                assert_eq!(answer.as_object().unwrap().len(), 2, "{name}");
                let text = answer["error"].as_str().unwrap();
                assert!(
                    text.contains(words) && text.contains("history"),
                    "{name}: {text}"
                );
                assert!(!text.contains(target), "{name}: {text}");
            }
        }
    }
}

#[test]
fn ac_127_send() {
    for (name, world, target, cell) in cells() {
        let World {
            store,
            settings,
            context,
        } = &world;
        let answer = reference::resolve(store, settings, context, target, Doing::Send);
        match (cell, answer) {
            (None, answer) => assert!(answer.is_ok(), "{name}: {answer:?}"),
            (Some(words), Err(refusal)) => {
                assert_eq!(refusal.status, ToolStatus::Forbidden, "{name}");
                assert!(refusal.error.contains(words), "{name}");
                assert!(refusal.error.contains("send"), "{name}");
            }
            (Some(_), Ok(target)) => panic!("{name}: {target:?}"),
        }
    }
}

#[test]
fn v_41_keys_that_would_be_denied_anyway_do_not_tell_whether_they_exist() {
    for (name, world, target, cell) in cells() {
        let with = world.history(json!({ "sessionKey": target }));
        let without = World {
            store: Memory::default(),
            ..world
        };
        let without = without.history(json!({ "sessionKey": target }));
        if cell.is_some() && !target.contains("subagent") {
            assert_eq!(with, without, "{name}");
        }
    }
    // A bare word too: like a word that names nothing.
    let hidden = World::new()
        .level(Level::Tree)
        .with("agent:main:plain", json!({}));
    let nothing = World::new().level(Level::Tree);
    let ask = json!({ "sessionKey": "plain" });
    assert_eq!(hidden.history(ask.clone()), nothing.history(ask));
}

#[test]
fn ac_129_a_sandbox_clamps_to_the_tree() {
    let world = |level| {
        World::new()
            .level(level)
            .cross(true, &[])
            .sandboxed()
            .with("agent:main:main", json!({}))
            .with(
                "agent:main:subagent:1",
                json!({ "spawnedBy": "agent:main:main" }),
            )
            .with("agent:main:telegram:group:1", json!({}))
            .with("agent:ops:main", json!({}))
    };
    let all = world(Level::All);
    assert_eq!(all.keys(json!({})), ["main", "agent:main:subagent:1"]);
    assert_eq!(world(Level::SelfOnly).keys(json!({})), ["main"]);
    let mut open = world(Level::All);
    open.settings.sandbox_spawned_only = false;
    assert_eq!(open.keys(json!({})).len(), 4);
}

#[test]
fn ac_130_a_grandchild_is_not_in_the_tree() {
    let world = World::new()
        .level(Level::Tree)
        .with(
            "agent:main:subagent:1",
            json!({ "spawnedBy": "agent:main:main" }),
        )
        .with(
            "agent:main:subagent:2",
            json!({ "spawnedBy": "agent:main:subagent:1" }),
        );
    let answer = world.history(json!({ "sessionKey": "agent:main:subagent:2" }));
    assert_eq!(answer["status"], "forbidden");
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .contains("tools.sessions.visibility=tree")
    );
    assert_eq!(world.keys(json!({})), ["agent:main:subagent:1"]);
}

#[test]
fn ac_131_both_agents_must_match() {
    for (allow, allowed) in [
        (vec!["ops-*"], false),
        (vec!["main", "OPS-*"], true),
        (vec!["Main", "ops-*"], false),
        (vec!["", "  "], false),
        (vec!["*"], true),
        (vec![], true),
    ] {
        let world = World::new()
            .level(Level::All)
            .cross(true, &allow)
            .with("agent:ops-1:main", json!({}));
        assert_eq!(world.keys(json!({})).len() == 1, allowed, "{allow:?}");
    }
}

#[test]
fn ac_132_restricted_mode_does_not_tell_what_exists() {
    const THERE: &str = "0b9c2e6a-1111-4222-8333-444455556666";
    const NOT_THERE: &str = "0b9c2e6a-1111-4222-8333-444455557777";
    let world = World::new()
        .level(Level::All)
        .cross(true, &[])
        .sandboxed()
        .with(
            "agent:ops:main",
            json!({ "sessionId": THERE, "label": "secret" }),
        )
        .with("agent:main:telegram:group:1", json!({}));
    let answer = |given: &str| world.history(json!({ "sessionKey": given }));
    let there = answer(THERE);
    assert_eq!(there["status"], "forbidden");
    assert!(there["error"].as_str().unwrap().contains(THERE));
    let expected = there.to_string().replace(THERE, NOT_THERE);
    assert_eq!(answer(NOT_THERE).to_string(), expected);
    for given in [
        "agent:ops:main",
        "agent:main:telegram:group:1",
        "agent:main:plain",
        "plain",
        "unknown",
    ] {
        let expected = there.to_string().replace(THERE, given);
        assert_eq!(answer(given).to_string(), expected, "{given}");
    }
    let World {
        store,
        settings,
        context,
    } = &world;
    for label in ["secret", "nothing"] {
        let refusal = reference::resolve_label(store, settings, context, label, None, Doing::Send);
        assert_eq!(
            refusal.unwrap_err().payload().to_string(),
            there.to_string().replace(THERE, label)
        );
    }
}

#[test]
fn ac_133_a_child_under_another_agent_is_reachable() {
    let world = World::new()
        .level(Level::Tree)
        .with(
            "agent:ops:subagent:1",
            json!({ "spawnedBy": "agent:main:main" }),
        )
        .with("agent:ops:main", json!({}));
    assert_eq!(world.keys(json!({})), ["agent:ops:subagent:1"]);
    assert!(world.history(json!({ "sessionKey": "agent:ops:subagent:1" }))["messages"].is_array());
    assert_eq!(
        world.history(json!({ "sessionKey": "agent:ops:main" }))["status"],
        "forbidden"
    );
}
