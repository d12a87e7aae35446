//! The words of the domain: keys, policy, visibility, entries, arguments.

use crosstalk::model::key::{
    AgentId, Kind, KindFacts, SessionKey, is_safe_session_id, looks_like_key,
};
use crosstalk::model::policy::{PolicyConfig, Source, decide};
use crosstalk::model::session::{Entry, SendPolicy};
use crosstalk::model::tools::Arguments;
use crosstalk::model::visibility::{Cross, CrossAgent, Level};
use proptest::prelude::*;
use serde_json::{Value, json};

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

fn entry(key_text: &str, members: Value) -> Entry {
    let mut entry: Entry = serde_json::from_value(members).unwrap();
    entry.key = key(key_text);
    entry
}

/// The decision for a key and members of its entry, and where it comes from.
fn decided(config: &Value, key_text: &str, members: Value) -> (SendPolicy, Source) {
    let config: PolicyConfig = serde_json::from_value(config.clone()).unwrap();
    let entry = entry(key_text, members);
    let decision = decide(Some(&config), &entry.key, Some(&entry), None, None);
    (decision.policy, decision.source)
}

fn policy(config: &Value, key_text: &str) -> SendPolicy {
    decided(config, key_text, json!({})).0
}

#[test]
fn ac_80_deny_groups_of_one_channel() {
    let config = json!({ "rules": [
        { "action": "deny", "match": { "channel": " Discord ", "chatType": "group" } } ] });
    assert_eq!(
        policy(&config, "agent:main:discord:group:1"),
        SendPolicy::Deny
    );
    assert_eq!(
        policy(&config, "agent:main:discord:channel:1"),
        SendPolicy::Allow
    );
    assert_eq!(
        policy(&config, "agent:main:telegram:group:1"),
        SendPolicy::Allow
    );
    let direct = |members| decided(&config, "agent:main:discord:direct:1", members).0;
    assert_eq!(direct(json!({ "channel": "discord" })), SendPolicy::Allow);
    // The entry says more than the key (SP-12).
    let by_entry = json!({ "lastChannel": "Discord", "chatType": "group" });
    assert_eq!(
        decided(&config, "agent:main:room", by_entry).0,
        SendPolicy::Deny
    );
    // An unknown chat type equals nothing; the message at hand counts first.
    let config: PolicyConfig = serde_json::from_value(config).unwrap();
    let main = key("agent:main:main");
    let of_message = |channel, chat| decide(Some(&config), &main, None, channel, chat).policy;
    assert_eq!(of_message(Some("discord"), None), SendPolicy::Allow);
    assert_eq!(of_message(Some("discord"), Some("GROUP")), SendPolicy::Deny);
}

#[test]
fn ac_81_deny_wins_in_any_order() {
    let allow = json!({ "action": "allow", "match": { "keyPrefix": "telegram:" } });
    let deny = json!({ "action": " DENY ", "match": { "chatType": "group" } });
    let target = "agent:main:telegram:group:1";
    for (rules, at) in [(json!([allow, deny]), 2), (json!([deny, allow]), 1)] {
        let answer = decided(&json!({ "rules": rules }), target, json!({}));
        assert_eq!(answer, (SendPolicy::Deny, Source::Rule(at)));
    }
}

#[test]
fn ac_82_an_allow_rule_beats_the_default() {
    let config = json!({ "default": "deny",
        "rules": [{ "action": "allow", "match": { "keyPrefix": "cron:" } }] });
    assert_eq!(policy(&config, "agent:main:cron:x"), SendPolicy::Allow);
    let main = decided(&config, "agent:main:main", json!({}));
    assert_eq!(main, (SendPolicy::Deny, Source::Default));
    // SP-11, SP-16, SP-17 and a rule without `match`.
    assert_eq!(policy(&json!({}), "agent:main:main"), SendPolicy::Allow);
    assert_eq!(
        decide(None, &key("agent:main:main"), None, None, None).policy,
        SendPolicy::Allow
    );
    let odd = json!({ "default": "deny", "rules": [{ "action": "perhaps" }] });
    assert_eq!(policy(&odd, "agent:main:main"), SendPolicy::Allow);
    assert_eq!(
        policy(
            &json!({ "rules": [{ "action": "deny" }] }),
            "agent:main:main"
        ),
        SendPolicy::Deny
    );
}

#[test]
fn ac_83_key_prefixes() {
    let rule = |name: &str, prefix: &str| json!({ "rules": [{ "action": "deny", "match": { name: prefix } }] });
    let target = "agent:main:telegram:group:1";
    assert_eq!(
        policy(&rule("keyPrefix", "telegram:"), target),
        SendPolicy::Deny
    );
    assert_eq!(
        policy(&rule("keyPrefix", "Agent:Main:"), target),
        SendPolicy::Deny
    );
    assert_eq!(
        policy(&rule("rawKeyPrefix", "telegram:"), target),
        SendPolicy::Allow
    );
    assert_eq!(
        policy(&rule("rawKeyPrefix", "agent:main:t"), target),
        SendPolicy::Deny
    );
    assert!(serde_json::from_value::<PolicyConfig>(json!({ "rule": [] })).is_err());
    assert!(serde_json::from_value::<PolicyConfig>(rule("sessionId", "x")).is_err());
}

#[test]
fn ac_86_the_override() {
    let config = json!({ "rules": [{ "action": "deny" }] });
    let with = |word: &str| decided(&config, "agent:main:main", json!({ "sendPolicy": word }));
    assert_eq!(with("allow"), (SendPolicy::Allow, Source::Override));
    assert_eq!(with("maybe"), (SendPolicy::Deny, Source::Rule(1)));
}

#[test]
fn d_3_members_that_do_not_fit_are_kept() {
    let stored = json!({ "sendPolicy": "maybe", "label": { "later": "shape" }, "sessionId": "s",
        "updatedAt": 7, "queueMode": "x", "lastTo": 5, "spawnedBy": "Agent:MAIN:Main" });
    let mut entry = entry("agent:main:main", stored.clone());
    assert_eq!((entry.session_id.as_str(), entry.updated_at), ("s", 7));
    assert_eq!((entry.send_policy, &entry.label), (None, &None));
    assert_eq!(entry.spawned_by, Some(key("agent:main:main")));
    let back = serde_json::to_value(&entry).unwrap();
    for name in ["sendPolicy", "label", "queueMode"] {
        assert_eq!(back[name], stored[name], "{name}");
    }
    // What we set takes the place of what was not understood, as a value and as text.
    entry.send_policy = Some(SendPolicy::Deny);
    let text = serde_json::to_string(&entry).unwrap();
    let back: Entry = serde_json::from_str(&text).unwrap();
    assert_eq!(back.send_policy, Some(SendPolicy::Deny));
    assert_eq!(serde_json::to_value(&entry).unwrap()["sendPolicy"], "deny");
}

#[test]
fn k_2_agent_ids() {
    for (given, mended) in [
        ("Ops", "ops"),
        ("  ops_1-x ", "ops_1-x"),
        ("Böse Buben", "b-se-buben"),
        ("../../etc", "etc"),
        ("a//..//b", "a-b"),
        ("-a-", "a"),
        ("_-_a", "a"),
        ("", "main"),
        ("///", "main"),
    ] {
        assert_eq!(AgentId::mend(given).as_str(), mended, "{given:?}");
    }
    for refused in ["../x", "", "a b", "-a", "_a", "ä", &"x".repeat(65)] {
        assert_eq!(AgentId::parse(refused), None, "{refused:?}");
    }
    assert_eq!(AgentId::mend(&"x".repeat(70)).as_str().len(), 64);
    assert_eq!(AgentId::parse(" OPS "), Some(AgentId::mend("ops")));
}

#[test]
fn k_5_full_keys() {
    for (given, expected) in [
        (" Agent:Main:Main ", Some("agent:main:main")),
        ("agent:Ops Team:x:y", Some("agent:ops-team:x:y")),
        (
            "agent:main:telegram:group:a:b",
            Some("agent:main:telegram:group:a:b"),
        ),
        ("GLOBAL", Some("global")),
        ("main", None),
        ("agent:main", None),
        ("agent::main", None),
        ("agent:main:", None),
        ("", None),
    ] {
        let parsed = SessionKey::parse(given).ok();
        assert_eq!(
            parsed.as_ref().map(SessionKey::as_str),
            expected,
            "{given:?}"
        );
    }
}

#[test]
fn k_7_parents_of_threads() {
    for (given, parent) in [
        (
            "agent:main:telegram:group:-1:topic:4",
            Some("agent:main:telegram:group:-1"),
        ),
        (
            "agent:main:x:thread:1:topic:2",
            Some("agent:main:x:thread:1"),
        ),
        (
            "agent:main:x:topic:1:thread:2",
            Some("agent:main:x:topic:1"),
        ),
        ("agent:main:thread:1", None),
        ("agent:main:main", None),
    ] {
        let found = key(given).thread_parent();
        assert_eq!(found.as_ref().map(SessionKey::as_str), parent, "{given}");
    }
    assert_eq!(SessionKey::foreign(":thread:1").thread_parent(), None);
}

#[test]
fn k_20_to_k_26_kinds() {
    let kind = |text: &str, main_key: &str, set_origin: Option<Kind>| {
        SessionKey::foreign(text).kind(&KindFacts {
            main_key,
            chat_type: None,
            set_origin,
        })
    };
    assert_eq!(kind("agent:ops:main", "work", None), Kind::Main);
    assert_eq!(kind("agent:ops:work", "work", None), Kind::Main);
    assert_eq!(kind("agent:ops:work", "main", None), Kind::Other);
    assert_eq!(kind("global", "main", None), Kind::Main);
    assert_eq!(kind("group:1", "main", None), Kind::Group);
    assert_eq!(kind("agent:main:cron:x:group:1", "main", None), Kind::Cron);
    assert_eq!(
        kind("agent:main:my-hook", "main", Some(Kind::Hook)),
        Kind::Hook
    );
}

#[test]
fn sp_12_what_a_key_says_of_its_chat() {
    for (rest, chat_type, channel) in [
        ("discord:group:1", Some("group"), Some("discord")),
        (
            "discord:channel:a:group:b",
            Some("channel"),
            Some("discord"),
        ),
        ("group:1", Some("group"), None),
        ("telegram:direct:1", Some("direct"), None),
        ("telegram:acct:dm:1", Some("direct"), None),
        ("dm:1", Some("direct"), None),
        ("subagent:direct", None, None),
        ("main", None, None),
    ] {
        let key = key(&format!("agent:main:{rest}"));
        assert_eq!(key.chat_type(), chat_type, "{rest}");
        assert_eq!(
            key.group_parts().and_then(|parts| parts.channel),
            channel,
            "{rest}"
        );
    }
}

#[test]
fn r_2_what_looks_like_a_key() {
    for yes in [
        "main",
        " GLOBAL",
        "unknown",
        "agent:x",
        "acp:1",
        "cron:1",
        "hook:1",
        "node-1",
        "node:1",
        "x:group:1",
        "x:channel:1",
    ] {
        assert!(looks_like_key(yes), "{yes}");
    }
    for no in [
        "work",
        "0b9c2e6a-1111-4222-8333-444455556666",
        "subagent:1",
        "x:direct:1",
        "",
    ] {
        assert!(!looks_like_key(no), "{no}");
    }
}

#[test]
fn r_8_session_ids_as_file_names() {
    for safe in ["a", "0b9c2e6a-1111", "A.b_c-d", "a..b"] {
        assert!(is_safe_session_id(safe), "{safe}");
    }
    for unsafe_id in [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "a/b",
        "a\\b",
        "a\0",
        "ä",
        "a b",
        &"x".repeat(129),
    ] {
        assert!(!is_safe_session_id(unsafe_id), "{unsafe_id:?}");
    }
}

#[test]
fn ac_128_level_words() {
    for (word, level) in [
        (Some(" TREE "), Level::Tree),
        (Some("everything"), Level::Tree),
        (None, Level::Tree),
        (Some("Self"), Level::SelfOnly),
        (Some("agent"), Level::Agent),
        (Some("ALL\n"), Level::All),
    ] {
        assert_eq!(Level::read(word), level, "{word:?}");
    }
}

#[test]
fn ac_129_the_clamp_only_narrows() {
    for level in [Level::SelfOnly, Level::Tree, Level::Agent, Level::All] {
        assert_eq!(level.clamped(true, true), level.min(Level::Tree));
        assert_eq!(level.clamped(true, false), level);
        assert_eq!(level.clamped(false, true), level);
    }
}

#[test]
fn e_16_arguments() {
    let object = json!({ "a": " x ", "b": " ", "numberText": " 2.9 ", "snake_case": "s", "nothing": null,
        "no_thing": "n", "nan": "NaN", "huge": 1e300, "half": 0.5, "minus": -3 });
    let arguments = Arguments(object.as_object().unwrap());
    assert_eq!(arguments.text("a").as_deref(), Some("x"));
    assert_eq!(arguments.text("b"), None);
    assert_eq!(arguments.text("snakeCase").as_deref(), Some("s"));
    assert_eq!(arguments.text("nothing"), None);
    assert_eq!(arguments.text("noThing").as_deref(), Some("n"));
    assert_eq!(arguments.whole("numberText", 1, 200), Some(2));
    assert_eq!(arguments.whole("huge", 1, 200), Some(200));
    assert_eq!(arguments.whole("minus", 1, 200), Some(1));
    assert_eq!(arguments.number("nan"), None);
    assert_eq!(arguments.seconds("half"), Some(1));
    assert_eq!(arguments.seconds("minus"), Some(0));
    assert_eq!(arguments.seconds("numberText"), Some(2));
}

/// What a pattern with `*` means, said another way.
fn by_regex(pattern: &str, id: &str) -> bool {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    let expression = format!("(?is)^{}$", parts.join(".*"));
    regex::Regex::new(&expression).unwrap().is_match(id)
}

proptest! {
    #[test]
    fn ac_131_patterns(pattern in "[ab*-]{0,6}", id in "[ab][ab-]{0,8}") {
        let target = AgentId::mend(&id);
        let policy = CrossAgent { enabled: true, allow: vec![pattern.clone()] };
        let expected = if pattern.contains('*') {
            by_regex(&pattern, target.as_str())
        } else {
            pattern == target.as_str()
        };
        prop_assert_eq!(policy.check(&target, &target) == Cross::Ok, expected);
    }

    #[test]
    fn k_1_and_k_2_are_fixed_points(text in "\\PC{0,80}") {
        let agent = AgentId::mend(&text);
        prop_assert_eq!(&AgentId::mend(agent.as_str()), &agent);
        prop_assert_eq!(AgentId::parse(agent.as_str()), Some(agent));
        let foreign = SessionKey::foreign(&text);
        prop_assert_eq!(&SessionKey::foreign(foreign.as_str()), &foreign);
        if let Ok(key) = SessionKey::parse(&format!("agent:{text}")) {
            prop_assert_eq!(&SessionKey::parse(key.as_str()).unwrap(), &key);
            for own in [AgentId::main(), key.agent().unwrap()] {
                prop_assert!(!key.display(Some(&own), "main").is_empty());
            }
            let _ = (key.thread_parent(), key.group_parts(), key.short());
        }
    }
}
