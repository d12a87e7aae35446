//! The configuration file: what is read, what is refused and where the error points, what is only warned about.

use crosstalk::config::{Runtime, SandboxMode, Settings, load, parse};
use crosstalk::model::key::AgentId;
use crosstalk::model::session::SendPolicy;
use crosstalk::model::visibility::Level;
use std::path::{Path, PathBuf};

fn read(text: &str) -> Settings {
    let settings = parse(text, Path::new("/etc/ct/config.json5")).unwrap();
    assert_eq!(warnings(&settings), Vec::<String>::new(), "{text}");
    settings
}

fn warnings(settings: &Settings) -> Vec<String> {
    settings
        .warnings
        .iter()
        .map(|w| w.raw().to_owned())
        .collect()
}

fn refused(text: &str) -> String {
    match parse(text, Path::new("c.json5")) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nothing_is_the_default() {
    let default = format!("{:?}", Settings::default());
    for text in [
        "",
        "  \n",
        "// only a remark",
        "/* a */ // b\n\n",
        "{}",
        "\u{feff}{}",
        "{ session: {}, agents: { list: [] } }",
    ] {
        let mut settings = read(text);
        assert_eq!(
            settings.source.take(),
            Some(PathBuf::from("/etc/ct/config.json5"))
        );
        assert_eq!(format!("{settings:?}"), default, "{text:?}");
    }
}

#[test]
fn c_40_the_example_is_read_without_a_remark() {
    let settings = read(include_str!("../../assets/config.example.json5"));
    assert_eq!(settings.agents.len(), 2);
    assert!(
        settings
            .agents
            .iter()
            .all(|agent| agent.runtime == Runtime::Directives)
    );
    assert_eq!(settings.send_policy.unwrap().rules.len(), 2);
}

#[test]
fn c_1_to_c_9_session() {
    let s = read(
        r#"{ session: {
            scope: "global", mainKey: " Desk ", dmScope: "per-peer", store: "~/x/{agentId}.json", maintenance: { mode: "warn" },
            identityLinks: { ada: ["telegram:1", "discord:2"], bob: [] },
            agentToAgent: { maxPingPongTurns: 0, maxChainRuns: 1 },
            sendPolicy: { default: "deny", rules: [
                { action: "allow", match: { channel: "discord", chatType: "dm", keyPrefix: "cron:", rawKeyPrefix: "agent:x:" } },
                { action: "deny" },
            ] },
            threadBindings: { enabled: false, idleHours: 0.5, maxAgeHours: 0 },
        } }"#,
    );
    assert!(s.scope_global);
    assert_eq!(s.main_key, "desk", "k_4");
    assert_eq!(s.dm_scope, "per-peer");
    assert_eq!(s.identity_links["ada"], ["telegram:1", "discord:2"]);
    assert_eq!(s.identity_links["bob"], Vec::<String>::new());
    assert_eq!((s.max_ping_pong_turns, s.max_chain_runs), (0, 1));
    let policy = s.send_policy.unwrap();
    assert_eq!(policy.default, Some(SendPolicy::Deny));
    let [allow, deny] = policy.rules.as_slice() else {
        panic!("{policy:?}");
    };
    assert_eq!(allow.action.as_deref(), Some("allow"));
    let stated = allow.matches.clone().unwrap();
    assert_eq!(stated.channel.as_deref(), Some("discord"));
    assert_eq!(stated.chat_type.as_deref(), Some("dm"));
    assert_eq!(stated.key_prefix.as_deref(), Some("cron:"));
    assert_eq!(stated.raw_key_prefix.as_deref(), Some("agent:x:"));
    assert_eq!(
        (deny.action.as_deref(), &deny.matches),
        (Some("deny"), &None)
    );
    assert!(!s.thread_bindings);
    assert_eq!((s.thread_idle_hours, s.thread_max_age_hours), (0.5, 0.0));
    assert_eq!(
        read("{ session: { mainKey: ' ' } }").main_key,
        "main",
        "k_4"
    );
    assert_eq!(
        read("{ session: { sendPolicy: {} } }").send_policy,
        Some(Default::default())
    );
}

#[test]
fn c_12_to_c_18_and_c_38_tools() {
    let s = read(
        r#"{ tools: {
            sessions: { visibility: " ALL ", allowThreadTargets: false },
            agentToAgent: { enabled: true, allow: ["main", "ops-*"] },
            subagents: { tools: { alsoAllow: ["sessions_list"], deny: ["x"], allow: [] } },
            sessions_spawn: { attachments: { enabled: false, maxFiles: 2.9, maxFileBytes: -1, maxTotalBytes: 1e6, retainOnSessionKeep: true } },
        } }"#,
    );
    assert_eq!(s.visibility, Level::All, "v_1");
    assert!(!s.allow_thread_targets);
    assert!(s.cross_agent.enabled);
    assert_eq!(s.cross_agent.allow, ["main", "ops-*"]);
    assert_eq!(s.subagent_tools.also_allow, ["sessions_list"]);
    assert_eq!(s.subagent_tools.deny, ["x"]);
    let a = s.attachments;
    assert_eq!((a.enabled, a.retain_on_session_keep), (false, true));
    assert_eq!(
        (a.max_files, a.max_file_bytes, a.max_total_bytes),
        (2, 0, 1_000_000)
    );
}

#[test]
fn c_19_to_c_34_and_c_39_agents() {
    let s = read(
        r#"{ models: { mode: "merge", providers: { acme: { baseUrl: "http://x", apiKey: "${ACME_KEY}", models: [ { id: "large", contextWindow: 200000, cost: {} }, { id: "small" } ] } } },
        agents: {
            defaults: {
                model: { primary: "acme/large", fallbacks: ["acme/small"] }, models: { "acme/large": { alias: "big" }, "acme/small": {} },
                timeoutSeconds: 60, maxConcurrent: 2, sandbox: { mode: "non-main", sessionToolsVisibility: "all" },
                subagents: { runTimeoutSeconds: 900, archiveAfterMinutes: 0, maxSpawnDepth: 5, maxChildrenPerAgent: 20, maxConcurrent: 1,
                    announceTimeoutMs: 9007199254740993, model: "acme/small", thinking: "low", allowAgents: ["*"], requireAgentId: true },
            },
            list: [
                { id: "Main Desk!", name: " ", workspace: "w", model: " " },
                { id: "ops", default: true, name: "Ops", workspace: "/srv/ops", model: "acme/small", runtime: { type: "command", command: ["run", "it"] },
                  sandbox: { mode: "all", wrapper: ["bwrap", "--"] }, subagents: { allowAgents: ["a"], model: { primary: "acme/large" }, thinking: "high", requireAgentId: false } },
                { id: "d", runtime: { type: "scripted", script: "directives" } },
                { id: "f", runtime: { type: "scripted", script: "cast/x.json5" } },
                { id: "l", runtime: { type: "llm" } },
            ],
        } }"#,
    );
    assert_eq!(
        s.known_models,
        [
            ("acme/large".into(), Some(200_000)),
            ("acme/small".into(), None)
        ]
    );
    assert_eq!(s.allowed_models, ["acme/large", "acme/small"]);
    assert_eq!(s.default_model.as_deref(), Some("acme/large"));
    assert_eq!((s.run_limit_s, s.max_concurrent), (60, 2));
    assert_eq!(
        (s.sandbox_mode, s.sandbox_spawned_only),
        (SandboxMode::NonMain, false)
    );
    let sub = &s.subagents;
    assert_eq!((sub.run_timeout_s, sub.archive_after_min), (900, None));
    assert_eq!(
        (sub.max_spawn_depth, sub.max_children, sub.max_concurrent),
        (5, 20, 1)
    );
    assert_eq!(sub.announce_timeout_ms, 2_147_000_000, "e_13");
    assert_eq!(
        (sub.model.as_deref(), sub.thinking.as_deref()),
        (Some("acme/small"), Some("low"))
    );
    assert_eq!(
        (sub.allow_agents.as_deref(), sub.require_agent_id),
        (Some(&["*".to_owned()][..]), true)
    );
    let ids: Vec<&str> = s.agents.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["main-desk", "ops", "d", "f", "l"], "k_2");
    assert_eq!(s.default_agent(), AgentId::mend("ops"), "k_3");
    let [desk, ops, directives, file, llm] = s.agents.as_slice() else {
        panic!();
    };
    assert_eq!(
        (&desk.name, &desk.model, &desk.allow_agents),
        (&None, &None, &None)
    );
    assert_eq!(desk.runtime, Runtime::Llm, "the default model is a model");
    assert_eq!(desk.workspace.as_deref(), Some(Path::new("/etc/ct/w")));
    assert_eq!(ops.name.as_ref().unwrap().raw(), "Ops");
    assert_eq!(ops.workspace.as_deref(), Some(Path::new("/srv/ops")));
    assert_eq!(
        ops.runtime,
        Runtime::Command(vec!["run".into(), "it".into()])
    );
    assert_eq!(ops.sandbox_mode, Some(SandboxMode::All));
    assert_eq!(ops.sandbox_wrapper.as_ref().unwrap(), &["bwrap", "--"]);
    assert_eq!(ops.allow_agents.as_ref().unwrap(), &["a"]);
    assert_eq!(
        (
            ops.subagent_model.as_deref(),
            ops.subagent_thinking.as_deref()
        ),
        (Some("acme/large"), Some("high"))
    );
    assert_eq!(ops.require_agent_id, Some(false));
    assert_eq!(directives.runtime, Runtime::Directives);
    assert_eq!(file.runtime, Runtime::Script("/etc/ct/cast/x.json5".into()));
    assert_eq!(llm.runtime, Runtime::Llm);
    let bare = read("{ agents: { list: [{ id: 'a' }, { id: 'b', model: 'x/y' }] } }");
    assert_eq!(
        (&bare.agents[0].runtime, &bare.agents[1].runtime),
        (&Runtime::None, &Runtime::Llm)
    );
}

#[test]
fn c_41_a_map_of_agents_is_a_list_in_file_order() {
    let s = read(
        "{ agents: { list: [{ id: 'first' }], entries: { Zed: { name: 'Z', id: 'zed' }, abe: {} } } }",
    );
    let ids: Vec<&str> = s.agents.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["first", "zed", "abe"]);
}

#[test]
fn members_of_later_features_are_no_surprise() {
    let s = read(
        r#"{ $schema: "x", gateways: { home: { url: "wss://x", tokenEnv: "T", admin: true } }, mcp: { servers: { a: { command: ["x"] } } },
        channels: { discord: { threadBindings: { enabled: true, spawnSubagentSessions: true }, deliver: { url: "http://x" } } },
        logging: { redactSensitive: "off", redactPatterns: [] },
        ui: { theme: "dusk", ascii: true, mouse: false, sort: "name", tree: false, density: "compact" } }"#,
    );
    assert_eq!(
        (s.ui.theme.as_deref(), s.ui.sort.as_deref()),
        (Some("dusk"), Some("name"))
    );
    assert_eq!(
        (s.ui.ascii, s.ui.mouse, s.ui.tree),
        (Some(true), Some(false), Some(false))
    );
}

#[test]
fn am_12_unknown_members_are_warnings_with_the_nearest_name() {
    let text = "{\n  sesion: {},\n  session: { mainkey: 'x',\n    agentToAgent: { maxPingPongTurn: 3 } },\n  agents: { list: [\n    { id: 'a' },\n    { id: 'b', default: true,\n      modle: 'x' },\n    { id: 'c', default: true } ] },\n  'a b': 1,\n}";
    let settings = parse(text, Path::new("c.json5")).unwrap();
    assert_eq!(
        warnings(&settings),
        [
            "c.json5:4: session.agentToAgent.maxPingPongTurn: unknown member, ignored; nearest known name: maxPingPongTurns",
            "c.json5:3: session.mainkey: unknown member, ignored; nearest known name: mainKey",
            "c.json5:8: agents.list[1].modle: unknown member, ignored; nearest known name: model",
            "c.json5:9: agents.list[2]: is not the default agent: an earlier one is marked as default",
            "c.json5:2: sesion: unknown member, ignored; nearest known name: session",
            "c.json5:10: [\"a b\"]: unknown member, ignored; nearest known name: mcp",
        ]
    );
    assert_eq!(settings.main_key, "main");
    assert_eq!(settings.max_ping_pong_turns, 5);
}

#[test]
fn sp_17_a_rule_without_action_is_said() {
    let settings = parse(
        "{ session: { sendPolicy: { rules: [\n{ match: {} }] } } }",
        Path::new("c.json5"),
    )
    .unwrap();
    assert_eq!(
        warnings(&settings),
        ["c.json5:2: session.sendPolicy.rules[0]: has no action, which counts as \"allow\""]
    );
    assert_eq!(settings.send_policy.unwrap().rules[0].action, None);
}

#[test]
fn values_that_cannot_be_used_name_file_line_path_and_what_is_allowed() {
    // The text stands on line 2.
    let cases = [
        ("session: 3", "session: 3 is no object; allowed: an object"),
        (
            "session: null",
            "session: null is no object; allowed: an object",
        ),
        (
            "session: { scope: 'both' }",
            "session.scope: \"both\" is none of the words; allowed: per-sender, global",
        ),
        (
            "session: { mainKey: 7 }",
            "session.mainKey: 7 is no string; allowed: a string",
        ),
        (
            "session: { dmScope: true }",
            "session.dmScope: true is none of the words; allowed: main, per-peer, per-channel-peer, per-account-channel-peer",
        ),
        (
            "session: { identityLinks: { a: 'b' } }",
            "session.identityLinks.a: \"b\" is no list; allowed: a list of strings",
        ),
        (
            "session: { identityLinks: { 'a.b': [1] } }",
            "session.identityLinks[\"a.b\"][0]: 1 is no string; allowed: a list of strings",
        ),
        (
            "session: { agentToAgent: { maxPingPongTurns: 6 } }",
            "session.agentToAgent.maxPingPongTurns: 6 is out of range; allowed: a whole number from 0 to 5",
        ),
        (
            "session: { agentToAgent: { maxPingPongTurns: -1 } }",
            "session.agentToAgent.maxPingPongTurns: -1 is out of range; allowed: a whole number from 0 to 5",
        ),
        (
            "session: { agentToAgent: { maxPingPongTurns: 2.5 } }",
            "session.agentToAgent.maxPingPongTurns: 2.5 is no whole number; allowed: a whole number from 0 to 5",
        ),
        (
            "session: { agentToAgent: { maxPingPongTurns: '3' } }",
            "session.agentToAgent.maxPingPongTurns: \"3\" is no number; allowed: a whole number from 0 to 5",
        ),
        (
            "session: { agentToAgent: { maxChainRuns: 0 } }",
            "session.agentToAgent.maxChainRuns: 0 is out of range; allowed: a whole number, at least 1",
        ),
        (
            "session: { threadBindings: { idleHours: -0.5 } }",
            "session.threadBindings.idleHours: -0.5 is too small; allowed: a number, at least 0",
        ),
        (
            "session: { threadBindings: { enabled: 'yes' } }",
            "session.threadBindings.enabled: \"yes\" is neither true nor false; allowed: true, false",
        ),
        (
            "session: { sendPolicy: { fallback: 'allow' } }",
            "session.sendPolicy.fallback: unknown member; allowed: default, rules",
        ),
        (
            "session: { sendPolicy: { default: 'maybe' } }",
            "session.sendPolicy.default: \"maybe\" is none of the words; allowed: allow, deny",
        ),
        (
            "session: { sendPolicy: { rules: {} } }",
            "session.sendPolicy.rules: an object is no list; allowed: a list of objects",
        ),
        (
            "session: { sendPolicy: { rules: ['x'] } }",
            "session.sendPolicy.rules[0]: \"x\" is no object; allowed: a list of objects",
        ),
        (
            "session: { sendPolicy: { rules: [{ action: 'block' }] } }",
            "session.sendPolicy.rules[0].action: \"block\" is none of the words; allowed: allow, deny",
        ),
        (
            "session: { sendPolicy: { rules: [{ action: 'deny', when: {} }] } }",
            "session.sendPolicy.rules[0].when: unknown member; allowed: action, match",
        ),
        (
            "session: { sendPolicy: { rules: [{ action: 'deny', match: { chattype: 'dm' } }] } }",
            "session.sendPolicy.rules[0].match.chattype: unknown member; allowed: channel, chatType, keyPrefix, rawKeyPrefix",
        ),
        (
            "session: { sendPolicy: { rules: [{ action: 'deny', match: { chatType: 'room' } }] } }",
            "session.sendPolicy.rules[0].match.chatType: \"room\" is none of the words; allowed: direct, group, channel, dm",
        ),
        (
            "tools: { sessions: { visibility: 'everything' } }",
            "tools.sessions.visibility: \"everything\" is none of the words; allowed: self, tree, agent, all",
        ),
        (
            "tools: { agentToAgent: { enabled: 'true' } }",
            "tools.agentToAgent.enabled: \"true\" is neither true nor false; allowed: true, false",
        ),
        (
            "tools: { agentToAgent: { allow: '*' } }",
            "tools.agentToAgent.allow: \"*\" is no list; allowed: a list of strings",
        ),
        (
            "tools: { subagents: { tools: { allow: ['a'], alsoAllow: ['b'] } } }",
            "tools.subagents.tools.alsoAllow: stands together with allow; allowed: one of the two: allow (only these tools) or alsoAllow (these too)",
        ),
        (
            "tools: { sessions_spawn: { attachments: { maxFiles: 'many' } } }",
            "tools.sessions_spawn.attachments.maxFiles: \"many\" is no number; allowed: a number",
        ),
        (
            "agents: { defaults: { sandbox: { mode: 'on' } } }",
            "agents.defaults.sandbox.mode: \"on\" is none of the words; allowed: off, non-main, all",
        ),
        (
            "agents: { defaults: { sandbox: { sessionToolsVisibility: 'tree' } } }",
            "agents.defaults.sandbox.sessionToolsVisibility: \"tree\" is none of the words; allowed: spawned, all",
        ),
        (
            "agents: { defaults: { timeoutSeconds: 0 } }",
            "agents.defaults.timeoutSeconds: 0 is out of range; allowed: a whole number, at least 1",
        ),
        (
            "agents: { defaults: { maxConcurrent: 0 } }",
            "agents.defaults.maxConcurrent: 0 is out of range; allowed: a whole number, at least 1",
        ),
        (
            "agents: { defaults: { model: 5 } }",
            "agents.defaults.model: 5 is no string; allowed: a string, or { primary, fallbacks }",
        ),
        (
            "agents: { defaults: { model: { primary: 5 } } }",
            "agents.defaults.model.primary: 5 is no string; allowed: a string",
        ),
        (
            "agents: { defaults: { subagents: { runTimeoutSeconds: -1 } } }",
            "agents.defaults.subagents.runTimeoutSeconds: -1 is out of range; allowed: a whole number, at least 0",
        ),
        (
            "agents: { defaults: { subagents: { archiveAfterMinutes: null } } }",
            "agents.defaults.subagents.archiveAfterMinutes: null is no number; allowed: a whole number, at least 0",
        ),
        (
            "agents: { defaults: { subagents: { archiveAfterMinutes: Infinity } } }",
            "agents.defaults.subagents.archiveAfterMinutes: null is no number; allowed: a whole number, at least 0",
        ),
        (
            "agents: { defaults: { subagents: { maxSpawnDepth: 6 } } }",
            "agents.defaults.subagents.maxSpawnDepth: 6 is out of range; allowed: a whole number from 1 to 5",
        ),
        (
            "agents: { defaults: { subagents: { maxChildrenPerAgent: 21 } } }",
            "agents.defaults.subagents.maxChildrenPerAgent: 21 is out of range; allowed: a whole number from 1 to 20",
        ),
        (
            "agents: { defaults: { subagents: { announceTimeoutMs: 0 } } }",
            "agents.defaults.subagents.announceTimeoutMs: 0 is out of range; allowed: a whole number, at least 1",
        ),
        (
            "agents: { list: {} }",
            "agents.list: an object is no list; allowed: a list of objects",
        ),
        (
            "agents: { list: [{}] }",
            "agents.list[0].id: is missing; allowed: a string",
        ),
        (
            "agents: { list: [{ id: 'ops' }, { id: ' OPS ' }] }",
            "agents.list[1].id: \" OPS \" is agent \"ops\" again, which is already number 1; allowed: each agent once",
        ),
        (
            "agents: { list: [{ id: 'ops' }], entries: { ops: {} } }",
            "agents.entries.ops: \"ops\" is agent \"ops\" again, which is already number 1; allowed: each agent once",
        ),
        (
            "agents: { entries: { ops: { id: 'dev' } } }",
            "agents.entries.ops.id: \"dev\" is another id than the entry's name \"ops\"; allowed: the name of the entry, or no id",
        ),
        (
            "agents: { list: [{ id: 'a', runtime: {} }] }",
            "agents.list[0].runtime.type: is missing; allowed: llm, command, scripted",
        ),
        (
            "agents: { list: [{ id: 'a', runtime: { type: 'magic' } }] }",
            "agents.list[0].runtime.type: \"magic\" is none of the words; allowed: llm, command, scripted",
        ),
        (
            "agents: { list: [{ id: 'a', runtime: { type: 'command' } }] }",
            "agents.list[0].runtime.command: is missing; allowed: a list of strings: a program and its arguments",
        ),
        (
            "agents: { list: [{ id: 'a', runtime: { type: 'command', command: [' '] } }] }",
            "agents.list[0].runtime.command: names no program; allowed: a list of strings: a program and its arguments",
        ),
        (
            "agents: { list: [{ id: 'a', runtime: { type: 'scripted' } }] }",
            "agents.list[0].runtime.script: is missing; allowed: a string",
        ),
        (
            "agents: { list: [{ id: 'a', sandbox: { wrapper: [] } }] }",
            "agents.list[0].sandbox.wrapper: names no program; allowed: a list of strings: a program and its arguments",
        ),
        (
            "models: { providers: { acme: { models: [{ name: 'x' }] } } }",
            "models.providers.acme.models[0].id: is missing; allowed: a string",
        ),
        (
            "channels: []",
            "channels: a list is no object; allowed: an object",
        ),
        (
            "ui: { mouse: 'on' }",
            "ui.mouse: \"on\" is neither true nor false; allowed: true, false",
        ),
        (
            "ui: { theme: { x: 1 } }",
            "ui.theme: an object is no string; allowed: a string",
        ),
        (
            "ui: { tree: 'a text that is much longer than anybody would want to read' }",
            "ui.tree: \"a text that is much longer than anybody \"… is neither true nor false; allowed: true, false",
        ),
    ];
    for (member, expect) in cases {
        let error = refused(&format!("{{\n{member} }}"));
        assert_eq!(error, format!("c.json5:2: {expect}"), "{member}");
    }
}

#[test]
fn the_line_is_the_members_own() {
    let cases = [
        (
            "{ /* \n { */ session: {\n // mainKey: 1\n 'mainKey': 7 } }",
            4,
        ),
        ("{ \"session\": { x: '}', \"mainKey\"\n:\n7 } }", 1),
        ("{ session: { mainKey: 'a',\n\n mainKey: 7 } }", 3),
        (
            "{ s\\u0065ssion: 1,\n session: { store: ['\\'',\n {}], mainKey: {} } }",
            3,
        ),
        (
            "{ session: { identityLinks: { a: [],\n '\\u0062': [\n'x',\n 1] } } }",
            4,
        ),
        ("{\r\n session: {\r\n mainKey: 1 } }", 3),
    ];
    for (text, line) in cases {
        let error = refused(text);
        assert!(
            error.starts_with(&format!("c.json5:{line}: session.")),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn what_is_no_json5_names_line_and_column() {
    let cases = [
        (
            "{\n session: {\n mainKey 'x' } }",
            "c.json5:3: session: expected colon at column 10; allowed: JSON5",
        ),
        (
            "{\n session: { mainKey: 'x' mainKey: 'y' } }",
            "c.json5:2: session: expected comma at column 26; allowed: JSON5",
        ),
        (
            "{} x",
            "c.json5:1: trailing characters at column 4; allowed: JSON5",
        ),
        (
            "[]",
            "c.json5:1: a list is no configuration; allowed: an object",
        ),
        (
            "'x'",
            "c.json5:1: \"x\" is no configuration; allowed: an object",
        ),
    ];
    for (text, expect) in cases {
        assert_eq!(refused(text), expect);
    }
    for text in [
        "{",
        "{ session: {",
        "{ session: 'x",
        "{ a: /* ",
        "\u{0}",
        "{ a: [1, }",
    ] {
        let error = refused(text);
        assert!(
            error.starts_with("c.json5:1: ") && error.ends_with("; allowed: JSON5"),
            "{text:?}: {error}"
        );
    }
    let deep = refused(&"[".repeat(100_000));
    assert_eq!(
        deep,
        "c.json5:1: too many nested brackets; allowed: at most 200 levels"
    );
}

#[test]
fn am_11_expressions_that_are_not_linear_are_refused() {
    for bad in ["(?=x)", "(a)\\\\1", "(", "/[/i"] {
        let error = refused(&format!(
            "{{ logging: {{ redactPatterns: [\n'ok',\n'{bad}'] }} }}"
        ));
        assert!(
            error.starts_with("c.json5:3: logging.redactPatterns[1]: "),
            "{error}"
        );
        assert!(error.contains("; allowed: an expression"), "{error}");
    }
    let settings = read("{ logging: { redactPatterns: ['hunter[0-9]{3,}', '/swordfish/i'] } }");
    assert!(
        settings
            .masker
            .mask("it is hunter2222222222222222222")
            .is_some()
    );
    assert!(settings.masker.mask("it is fine").is_none());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json5");
    let error = load(&file).unwrap_err();
    assert_eq!(error.file, file);
    assert!(
        error
            .message
            .starts_with(&format!("{}: cannot be read: ", file.display())),
        "{error}"
    );
    assert!(
        load(dir.path())
            .unwrap_err()
            .message
            .contains("cannot be read")
    );
    std::fs::write(&file, b"{\n ui: { theme: '\xff' } }").unwrap();
    assert_eq!(
        load(&file).unwrap_err().message,
        format!(
            "{}:2: not UTF-8 text; allowed: JSON5 in UTF-8",
            file.display()
        )
    );
    std::fs::write(&file, "{ ui: { theme: 'dusk' } }").unwrap();
    let settings = load(&file).unwrap();
    assert_eq!(settings.ui.theme.as_deref(), Some("dusk"));
    assert_eq!(settings.source, Some(file));
}

proptest::proptest! {
    /// Whatever is typed: settings, or one line that begins with the file and a line that is there.
    #[test]
    fn a_broken_file_is_an_error_and_never_a_panic(
        at in 0_usize..2000,
        cut in 0_usize..30,
        put in "[\\[\\]{}:,'\"/*\\\\a0.\n é-]{0,6}",
    ) {
        let example: Vec<char> = include_str!("../../assets/config.example.json5").chars().collect();
        let at = at.min(example.len());
        let end = (at + cut).min(example.len());
        let text: String = example[..at].iter().copied().chain(put.chars()).chain(example[end..].iter().copied()).collect();
        if let Err(error) = parse(&text, Path::new("c.json5")) {
            let message = error.to_string();
            let line = message.strip_prefix("c.json5:").and_then(|rest| rest.split_once(": ")).map(|(line, _)| line.to_owned());
            let line: usize = line.unwrap().parse().unwrap();
            proptest::prop_assert!((1..=text.split('\n').count()).contains(&line), "{}", message);
            proptest::prop_assert!(message.contains("; allowed: ") && !message.contains('\n'), "{}", message);
        }
    }
}
