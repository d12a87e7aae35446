use super::*;
use crosstalk::engine::list::rows as front_rows;
use crosstalk::protocol::methods::ListRequest;

#[test]
fn ac_1_main_and_full_keys() {
    let world = World::new()
        .with("agent:main:main", json!({ "updatedAt": 2 }))
        .with("agent:main:telegram:group:-100", json!({ "updatedAt": 1 }));
    assert_eq!(
        world.keys(json!({})),
        ["main", "agent:main:telegram:group:-100"]
    );
}

#[test]
fn ac_6_cron_runs_are_not_listed() {
    let world = World::new()
        .with("agent:main:cron:j1", json!({}))
        .with("agent:main:cron:j1:run:9", json!({}));
    assert_eq!(world.keys(json!({})), ["cron:j1"]);
}

#[test]
fn ac_15_kinds() {
    for (rest, kind) in [
        ("main", "main"),
        ("telegram:group:-1", "group"),
        ("discord:channel:5", "group"),
        ("direct:p", "other"),
        ("telegram:direct:p", "other"),
        ("telegram:acct:direct:p", "other"),
        ("cron:j1", "cron"),
        ("hook:4f", "hook"),
        ("node-7", "node"),
        ("node:7", "node"),
        ("subagent:u", "other"),
        ("telegram:group:-1:topic:4", "group"),
        ("group:-1", "group"),
        ("telegram:direct:p:thread:1", "other"),
    ] {
        let world = World::new().with(&format!("agent:main:{rest}"), json!({}));
        let listed = world.list(json!({}));
        assert_eq!(listed["sessions"][0]["kind"], kind, "{rest}");
        assert_eq!(world.keys(json!({ "kinds": [kind] })).len(), 1, "{rest}");
    }
}

/// The one row of an entry.
fn row(key: &str, entry: Value) -> Value {
    World::new().with(key, entry).list(json!({}))["sessions"][0].clone()
}

#[test]
fn ac_16_kind_by_chat_type() {
    assert_eq!(
        row("agent:main:matrix:room!x", json!({ "chatType": "group" }))["kind"],
        "group"
    );
}

#[test]
fn ac_17_to_21_channel_of_a_row() {
    let group = "agent:main:discord:group:1";
    let main = "agent:main:main";
    let direct = "agent:main:direct:p";
    for (key, entry, channel) in [
        (
            "agent:main:cron:x",
            json!({ "channel": "telegram" }),
            "internal",
        ),
        (
            group,
            json!({ "channel": "discord", "lastChannel": "webchat" }),
            "discord",
        ),
        (
            group,
            json!({ "origin": { "provider": "Line" }, "lastChannel": "webchat" }),
            "line",
        ),
        (group, json!({ "lastChannel": "webchat" }), "webchat"),
        (group, json!({}), "discord"),
        (
            main,
            json!({ "channel": "webchat", "lastChannel": "whatsapp" }),
            "whatsapp",
        ),
        (main, json!({ "channel": "webchat" }), "webchat"),
        (
            main,
            json!({ "deliveryContext": { "channel": "Signal" } }),
            "signal",
        ),
        (direct, json!({}), "unknown"),
        (direct, json!({ "lastChannel": "Slack" }), "slack"),
        (
            direct,
            json!({ "channel": "irc", "lastChannel": "line" }),
            "line",
        ),
        (
            "agent:main:subagent:1",
            json!({ "channel": "irc", "lastChannel": "line" }),
            "irc",
        ),
        (
            "agent:main:subagent:1",
            json!({ "lastChannel": "line" }),
            "line",
        ),
    ] {
        assert_eq!(row(key, entry.clone())["channel"], channel, "{key} {entry}");
    }
}

#[test]
fn ac_22_routes_of_two_channels_are_not_mixed() {
    let mixed = row(
        "agent:main:main",
        json!({
            "lastChannel": "telegram", "lastTo": "1",
            "deliveryContext": { "channel": "discord", "to": "2", "accountId": "b" },
        }),
    );
    assert_eq!(
        mixed["deliveryContext"],
        json!({ "channel": "telegram", "to": "1" })
    );
    let filled = row(
        "agent:main:main",
        json!({
            "lastChannel": " Telegram ", "lastTo": " ",
            "deliveryContext": { "channel": "telegram", "to": 2, "accountId": "b", "threadId": 4.7 },
        }),
    );
    assert_eq!(
        filled["deliveryContext"],
        json!({ "channel": "telegram", "to": "2", "accountId": "b", "threadId": "4" })
    );
    assert_eq!(filled["lastTo"], "2");
    assert_eq!(
        row("agent:main:main", json!({})).get("deliveryContext"),
        None
    );
}

#[test]
fn ac_23_kinds_filter() {
    let world = World::new()
        .with("agent:main:main", json!({}))
        .with("agent:main:cron:1", json!({}));
    assert_eq!(
        world.keys(json!({ "kinds": ["CRON", "bogus"] })),
        ["cron:1"]
    );
    assert_eq!(world.keys(json!({ "kinds": " cron " })), ["cron:1"]);
    for all in [json!(["bogus"]), json!([]), json!(7)] {
        assert_eq!(world.keys(json!({ "kinds": all })).len(), 2);
    }
}

#[test]
fn ac_24_limit() {
    let mut world = World::new();
    for at in 0..300 {
        world
            .store
            .put(&format!("agent:main:direct:{at}"), json!({}));
    }
    let count = |arguments: Value| {
        let payload = world.list(arguments);
        assert_eq!(
            payload["count"].as_u64().unwrap() as usize,
            rows(&payload).len()
        );
        rows(&payload).len()
    };
    assert_eq!(count(json!({})), 100);
    for (limit, expected) in [
        (json!(0), 1),
        (json!(250), 200),
        (json!(2.9), 2),
        (json!("7"), 7),
        (json!(-3), 1),
        (json!("x"), 100),
        (Value::Null, 100),
    ] {
        assert_eq!(count(json!({ "limit": limit })), expected);
    }
    // Pages lead through everything, once.
    let mut offset = json!(0);
    let mut keys = Vec::new();
    loop {
        let page = world.list(json!({ "limit": 70, "offset": offset }));
        keys.extend(rows(&page).iter().map(|row| row["key"].to_string()));
        if page["hasMore"] == false {
            assert_eq!(page.get("nextOffset"), None);
            break;
        }
        offset = page["nextOffset"].clone();
    }
    assert_eq!(keys.len(), 300);
    keys.dedup();
    assert_eq!(keys.len(), 300);
}

#[test]
fn ac_25_visibility_before_limit() {
    let mut world = World::new();
    for at in 0..50 {
        world.store.put(
            &format!("agent:ops:direct:{at}"),
            json!({ "updatedAt": 100 }),
        );
    }
    for at in 0..3 {
        world.store.put(
            &format!("agent:main:direct:{at}"),
            json!({ "updatedAt": at }),
        );
    }
    assert_eq!(world.keys(json!({ "limit": 3 })).len(), 3);
    assert_eq!(world.list(json!({ "limit": 3 }))["hasMore"], false);
}

#[test]
fn ac_26_active_minutes() {
    let world = World::new()
        .with("agent:main:direct:in", json!({ "updatedAt": NOW - 60_000 }))
        .with(
            "agent:main:direct:out",
            json!({ "updatedAt": NOW - 60_001 }),
        )
        .with("agent:main:direct:never", json!({ "updatedAt": 0 }));
    for minutes in [json!(1), json!(0), json!(-5), json!("1"), json!(1.9)] {
        assert_eq!(
            world.keys(json!({ "activeMinutes": minutes })),
            ["agent:main:direct:in"]
        );
    }
    let all_time = world.keys(json!({ "activeMinutes": i64::MAX }));
    assert_eq!(all_time, ["agent:main:direct:in", "agent:main:direct:out"]);
}

#[test]
fn ac_27_message_limit() {
    let mut world = World::new().with("agent:main:main", json!({}));
    world
        .store
        .say("agent:main:main", (0..30).map(|at| user(&at.to_string())));
    assert_eq!(world.row("main").get("messages"), None);
    assert_eq!(
        world
            .row_of(json!({ "messageLimit": 0 }), "main")
            .get("messages"),
        None
    );
    let payload = world.list(json!({ "messageLimit": 50 }));
    assert_eq!(payload["messageLimitApplied"], 20);
    let messages = texts(&payload["sessions"][0]);
    assert_eq!(messages.len(), 20);
    assert_eq!(messages.last().unwrap(), "29");
    assert_eq!(
        world
            .list(json!({ "messageLimit": 20 }))
            .get("messageLimitApplied"),
        None
    );
    assert_eq!(
        texts(&world.row_of(json!({ "message_limit": "2" }), "main")),
        ["28", "29"]
    );
}

#[test]
fn ac_28_no_tool_results_in_rows() {
    let mut world = World::new().with("agent:main:main", json!({}));
    let lines = [user("q"), tool_call(), tool_result("r"), assistant("a")];
    world.store.say("agent:main:main", lines);
    let row = world.row_of(json!({ "messageLimit": 2 }), "main");
    let roles: Vec<&str> = row["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["assistant", "assistant"]);
    assert_eq!(row["messages"][0]["content"][0]["type"], "toolCall");
}

#[test]
fn ac_29_a_broken_transcript_is_an_empty_list() {
    let mut world = World::new()
        .with("agent:main:main", json!({ "sessionId": "bad" }))
        .with("agent:main:direct:1", json!({}))
        .with("agent:main:direct:2", json!({}));
    world.store.broken.push("bad".into());
    world.store.say("agent:main:direct:1", [user("here")]);
    let arguments = json!({ "messageLimit": 3 });
    assert_eq!(
        world.row_of(arguments.clone(), "main")["messages"],
        json!([])
    );
    assert_eq!(
        texts(&world.row_of(arguments.clone(), "agent:main:direct:1")),
        ["here"]
    );
    assert_eq!(
        world.row_of(arguments, "agent:main:direct:2")["messages"],
        json!([])
    );
}

#[test]
fn ac_30_equal_times_are_ordered_by_key() {
    let mut world = World::new();
    for rest in ["direct:c", "direct:a", "direct:b"] {
        world
            .store
            .put(&format!("agent:main:{rest}"), json!({ "updatedAt": 5 }));
    }
    world
        .store
        .put("agent:main:direct:z", json!({ "updatedAt": 6 }));
    let expected = ["z", "a", "b", "c"].map(|id| format!("agent:main:direct:{id}"));
    assert_eq!(world.keys(json!({})), expected);
}

#[test]
fn ac_31_stale_totals() {
    let main = "agent:main:main";
    let fresh = row(main, json!({ "totalTokens": 5, "contextTokens": 9 }));
    assert_eq!(
        (&fresh["totalTokens"], &fresh["contextTokens"]),
        (&json!(5), &json!(9))
    );
    let stale = row(main, json!({ "totalTokens": 5, "totalTokensFresh": false }));
    assert_eq!(stale.get("totalTokens"), None);
    assert_eq!(
        row(main, json!({ "totalTokens": -1 })).get("totalTokens"),
        None
    );
}

#[test]
fn ac_32_send_policy_only_as_override() {
    let main = "agent:main:main";
    assert_eq!(
        row(main, json!({ "sendPolicy": "deny" }))["sendPolicy"],
        "deny"
    );
    assert_eq!(row(main, json!({})).get("sendPolicy"), None);
    // SP-20: any other value counts as absent, and takes nothing else with it.
    let odd = row(main, json!({ "sendPolicy": "maybe", "label": "kept" }));
    assert_eq!(odd.get("sendPolicy"), None);
    assert_eq!(odd["label"], "kept");
}

#[test]
fn ac_33_parent_and_child() {
    let child = "agent:main:subagent:1";
    let started = NOW - 5000;
    let world = |members: Value| {
        let mut entry = members;
        entry["spawnedBy"] = json!("agent:main:main");
        entry["startedAt"] = json!(started);
        World::new()
            .level(Level::Tree)
            .with("agent:main:main", json!({}))
            .with(child, entry)
    };
    let running = world(json!({ "status": "running" }));
    let row = running.row(child);
    assert_eq!(row["spawnedBy"], "main");
    assert_eq!(row["status"], "running");
    assert_eq!(row["runtimeMs"], 5000);
    assert_eq!(running.row("main")["childSessions"], json!([child]));
    let done = world(json!({ "status": "done", "endedAt": started + 700 }));
    let row = done.row(child);
    assert_eq!(
        (&row["status"], &row["runtimeMs"]),
        (&json!("done"), &json!(700))
    );
}

#[test]
fn l_46_links_to_hidden_sessions_are_left_out() {
    let world = World::new()
        .level(Level::Tree)
        .requester("agent:main:subagent:1")
        .with("agent:main:main", json!({}))
        .with(
            "agent:main:subagent:1",
            json!({ "spawnedBy": "agent:main:main", "parentSessionKey": "agent:main:main" }),
        );
    let row = world.row("agent:main:subagent:1");
    assert_eq!(row.get("spawnedBy"), None);
    assert_eq!(row.get("parentSessionKey"), None);
    let wider = world.level(Level::Agent);
    assert_eq!(wider.row("agent:main:subagent:1")["spawnedBy"], "main");
    // A child that may not be seen is not named.
    let world = World::new().with("agent:main:main", json!({})).with(
        "agent:ops:subagent:2",
        json!({ "spawnedBy": "agent:main:main" }),
    );
    assert_eq!(world.row("main").get("childSessions"), None);
    assert_eq!(
        world.level(Level::Tree).row("main")["childSessions"],
        json!(["agent:ops:subagent:2"])
    );
}

#[test]
fn l_47_children_of_many_rows() {
    let mut world = World::new();
    for at in 0..300 {
        let by = format!("agent:main:direct:{at}");
        world.store.put(&by, json!({}));
        let child = format!("agent:main:subagent:{at}");
        world
            .store
            .put(&child, json!({ "spawnedBy": by, "updatedAt": 1 }));
    }
    let child = json!(["agent:main:subagent:7"]);
    assert_eq!(
        world.row_of(
            json!({ "limit": 200, "search": "direct:7" }),
            "agent:main:direct:7"
        )["childSessions"],
        child
    );
    let world = world.person();
    let World {
        store,
        settings,
        context,
    } = &world;
    let rows = front_rows(store, settings, context, &ListRequest::default(), NOW)
        .unwrap()
        .rows;
    assert_eq!(rows.len(), 600);
    let parent = rows
        .iter()
        .find(|row| row.key.raw() == "agent:main:direct:7")
        .unwrap();
    assert_eq!(json!(parent.child_sessions), child);
}

#[test]
fn l_5_to_l_9_filters() {
    let world = World::new()
        .with(
            "agent:main:main",
            json!({ "label": "Boss", "updatedAt": 5 }),
        )
        .with(
            "agent:main:direct:1",
            json!({ "label": "boss", "subject": "Tea time", "updatedAt": 4 }),
        )
        .with(
            "agent:main:direct:2",
            json!({ "archivedAt": 9, "updatedAt": 3 }),
        )
        .with("agent:ops:main", json!({}));
    let archived = "agent:main:direct:2";
    assert_eq!(world.keys(json!({ "label": "Boss" })), ["main"]);
    assert_eq!(
        world.keys(json!({ "search": "TEA" })),
        ["agent:main:direct:1"]
    );
    assert_eq!(
        world.keys(json!({ "agentId": "ops" })),
        Vec::<String>::new()
    );
    assert_eq!(world.keys(json!({ "agentId": " MAIN " })).len(), 2);
    assert_eq!(world.keys(json!({ "archived": true })), [archived]);
    assert_eq!(world.keys(json!({ "archived": " All" })).len(), 3);
    assert_eq!(world.keys(json!({ "includeArchived": true })).len(), 3);
    assert_eq!(world.keys(json!({ "archived": "true" })).len(), 2);
}

#[test]
fn l_28_the_payload_stays_small() {
    let mut world = World::new();
    let big = "ä".repeat(3900);
    for at in 0..40 {
        let key = format!("agent:main:direct:{at:02}");
        world.store.put(&key, json!({}));
        world.store.say(&key, (0..20).map(|_| user(&big)));
    }
    let payload = world.list(json!({ "messageLimit": 20 }));
    assert!(serde_json::to_string_pretty(&payload).unwrap().len() <= 1024 * 1024);
    let omitted: Vec<bool> = rows(&payload)
        .iter()
        .map(|row| {
            let omitted = row["messagesOmitted"] == true;
            assert_ne!(omitted, row.get("messages").is_some());
            omitted
        })
        .collect();
    assert!(!omitted[0] && omitted[39]);
    assert!(omitted.is_sorted());
}

#[test]
fn l_33_names() {
    let group = "agent:main:discord:channel:98";
    for (key, entry, name) in [
        (
            group,
            json!({ "displayName": "Ops room", "label": "x" }),
            "Ops room",
        ),
        (
            group,
            json!({ "groupChannel": "#General chat", "space": "Acme" }),
            "discord:acme#general-chat",
        ),
        (
            group,
            json!({ "groupChannel": "#general" }),
            "discord:#general",
        ),
        (
            group,
            json!({ "subject": "Böse  Buben!" }),
            "discord:g-b-se-buben",
        ),
        (
            group,
            json!({ "channel": "Slack", "label": "x" }),
            "slack:g-98",
        ),
        (
            "agent:main:direct:1",
            json!({ "label": " Ann ", "origin": { "label": "o" } }),
            "Ann",
        ),
        (
            "agent:main:direct:1",
            json!({ "origin": { "label": "o" } }),
            "o",
        ),
    ] {
        assert_eq!(row(key, entry.clone())["displayName"], name, "{entry}");
    }
    assert_eq!(
        row("agent:main:direct:1", json!({})).get("displayName"),
        None
    );
}

#[test]
fn l_36_model() {
    let main = "agent:main:main";
    let mut world = World::new();
    world.settings.default_model = Some("acme/base".into());
    let model = |entry: Value| {
        let mut world = World {
            store: Memory::default(),
            settings: world.settings.clone(),
            context: world.context.clone(),
        };
        world.store.put(main, entry);
        world.row("main")["model"].clone()
    };
    assert_eq!(
        model(json!({ "model": "last", "modelOverride": "set" })),
        "last"
    );
    assert_eq!(model(json!({ "modelOverride": "set" })), "set");
    assert_eq!(model(json!({})), "acme/base");
}

#[test]
fn l_52_titles_and_previews() {
    let wish = json!({ "includeDerivedTitles": true, "includeLastMessage": true });
    let one = |entry: Value, lines: Vec<Value>| {
        let mut world = World::new().with("agent:main:direct:1", entry);
        world.store.say("agent:main:direct:1", lines);
        world.row_of(wish.clone(), "agent:main:direct:1")
    };
    assert_eq!(
        one(json!({ "displayName": "D", "subject": "S" }), vec![])["derivedTitle"],
        "D"
    );
    assert_eq!(
        one(json!({ "subject": "S" }), vec![user("q")])["derivedTitle"],
        "S"
    );
    let kept = one(
        json!({ "firstUserText": "what  is\nthis", "lastText": "an answer" }),
        vec![],
    );
    assert_eq!(kept["derivedTitle"], "what is this");
    assert_eq!(kept["lastMessagePreview"], "an answer");
    // A store that keeps neither: the transcript's two ends.
    let routed = json!({ "role": "user", "content": "routed",
        "provenance": { "kind": "inter_session" } });
    let read = one(
        json!({}),
        vec![
            routed,
            user("a question of mine"),
            assistant("last\nwords"),
            tool_result("r"),
        ],
    );
    assert_eq!(read["derivedTitle"], "a question of mine");
    assert_eq!(read["lastMessagePreview"], "last words");
    let long = one(
        json!({ "subject": format!("{} {}", "word".repeat(10), "tail".repeat(9)) }),
        vec![],
    );
    assert_eq!(long["derivedTitle"], format!("{}…", "word".repeat(10)));
    let nameless = one(
        json!({ "sessionId": "0123456789ab", "updatedAt": NOW }),
        vec![],
    );
    assert_eq!(nameless["derivedTitle"], "01234567 (2027-01-15)");
    // Not without being asked.
    let world = World::new().with(
        "agent:main:main",
        json!({ "subject": "S", "lastText": "x" }),
    );
    assert_eq!(world.row("main").get("derivedTitle"), None);
    assert_eq!(world.row("main").get("lastMessagePreview"), None);
}

#[test]
fn rows_for_front_doors_are_complete_and_counted() {
    let mut world = World::new().person();
    for at in 0..250 {
        world.store.put(
            &format!("agent:main:direct:{at}"),
            json!({ "subject": "S" }),
        );
    }
    world.store.put("agent:ops:main", json!({}));
    world
        .store
        .put("agent:ops:direct:1", json!({ "archivedAt": 1 }));
    let ask = |request: ListRequest| {
        front_rows(&world.store, &world.settings, &world.context, &request, NOW).unwrap()
    };
    let all = ask(ListRequest::default());
    assert_eq!(
        (all.rows.len(), all.total, all.all, all.archived),
        (251, 251, 251, 1)
    );
    assert_eq!(all.rows[0].derived_title.as_ref().unwrap().raw(), "S");
    let some = ask(ListRequest {
        agent: Some("ops".into()),
        limit: Some(1),
        ..ListRequest::default()
    });
    assert_eq!((some.rows.len(), some.total, some.all), (1, 1, 251));
    let archived = ask(ListRequest {
        archived_only: true,
        ..ListRequest::default()
    });
    assert_eq!(archived.rows[0].key.raw(), "agent:ops:direct:1");
    // As a session, only what that session may see counts.
    let session = world.requester("agent:ops:main");
    let World {
        store,
        settings,
        context,
    } = &session;
    let rows = front_rows(store, settings, context, &ListRequest::default(), NOW).unwrap();
    assert_eq!((rows.total, rows.all, rows.archived), (1, 1, 1));
}

#[test]
fn l_21_filters_hold_at_every_level() {
    let world = |level| {
        World::new()
            .level(level)
            .with(
                "agent:main:main",
                json!({ "label": "me", "updatedAt": 9, "lastChannel": "irc" }),
            )
            .with(
                "agent:main:subagent:1",
                json!({ "label": "kid", "updatedAt": 8, "spawnedBy": "agent:main:main" }),
            )
            .with(
                "agent:main:subagent:2",
                json!({ "archivedAt": 1, "updatedAt": 7, "spawnedBy": "agent:main:main" }),
            )
    };
    let main = "main";
    let kid = "agent:main:subagent:1";
    let gone = "agent:main:subagent:2";
    for (arguments, expected) in [
        (json!({}), vec![main, kid]),
        (json!({ "limit": 1 }), vec![main]),
        (json!({ "offset": 1 }), vec![kid]),
        (json!({ "kinds": ["other"] }), vec![kid]),
        (json!({ "kinds": ["main"] }), vec![main]),
        (json!({ "label": "kid" }), vec![kid]),
        (json!({ "label": "me" }), vec![main]),
        (json!({ "search": "KID" }), vec![kid]),
        (json!({ "search": "agent:main:main" }), vec![main]),
        (json!({ "archived": true }), vec![gone]),
        (json!({ "archived": "all" }), vec![main, kid, gone]),
        (json!({ "agentId": "ops" }), vec![]),
        (json!({ "agentId": "main" }), vec![main, kid]),
        (json!({ "activeMinutes": 1 }), vec![]),
    ] {
        for level in [Level::Tree, Level::Agent, Level::All] {
            assert_eq!(
                world(level).keys(arguments.clone()),
                expected,
                "{level:?} {arguments}"
            );
        }
    }
    let own_run = World::new()
        .level(Level::Tree)
        .requester("agent:main:cron:1:run:2")
        .with("agent:main:cron:1:run:2", json!({}));
    assert!(own_run.keys(json!({})).is_empty());
}
