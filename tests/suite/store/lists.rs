use super::state::{entry, key, put, store};
use crosstalk::model::key::{AgentId, Kind};
use crosstalk::model::row;
use crosstalk::model::session::Entry;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Archived, Query, Sessions};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

fn keys(store: &StateStore, query: &Query) -> (Vec<String>, usize) {
    let page = store.list(query, None).unwrap();
    let unfiltered = store.list(query, Some(&|_| true)).unwrap();
    assert_eq!(
        (&page.entries, page.total),
        (&unfiltered.entries, unfiltered.total),
        "{query:?}"
    );
    (
        page.entries
            .iter()
            .map(|e| e.key.as_str().to_owned())
            .collect(),
        page.total,
    )
}

async fn a_house() -> (tempfile::TempDir, StateStore) {
    let (dir, store) = store();
    put(
        &store,
        vec![
            entry(
                "agent:main:main",
                50,
                json!({"displayName": "Über Haus", "lastChannel": "Telegram"}),
            ),
            entry(
                "agent:main:telegram:group:-1",
                40,
                json!({"subject": "Family"}),
            ),
            entry("agent:main:cron:j1", 30, json!({"channel": "discord"})),
            entry("agent:main:cron:j1:run:9", 99, json!({})),
            entry("agent:main:hook:x", 20, json!({"archivedAt": 5})),
            entry("agent:other:main", 50, json!({"label": "Mine"})),
            entry(
                "agent:other:subagent:u",
                10,
                json!({"spawnedBy": "agent:other:main", "channel": "irc"}),
            ),
            entry("agent:other:node-7", 10, json!({"archivedAt": 6})),
            entry("agent:main:global", 98, json!({})),
            entry("global", 97, json!({"sessionId": "the-global"})),
        ],
    )
    .await;
    (dir, store)
}

#[tokio::test]
async fn what_a_query_finds_and_in_which_order() {
    let (_dir, store) = a_house().await;
    let check = |query: Query, expect: &[&str]| {
        let (found, total) = keys(&store, &query);
        assert_eq!(found, expect, "{query:?}");
        assert_eq!(total, expect.len(), "{query:?}");
    };
    let q = Query::default;
    let main = "agent:main:main";
    let other = "agent:other:main";
    let group = "agent:main:telegram:group:-1";
    let cron = "agent:main:cron:j1";
    let hook = "agent:main:hook:x";
    let node = "agent:other:node-7";
    let child = "agent:other:subagent:u";
    check(q(), &[main, other, group, cron, child]);
    check(
        Query {
            archived: Archived::Only,
            ..q()
        },
        &[hook, node],
    );
    check(
        Query {
            archived: Archived::Both,
            ..q()
        },
        &[main, other, group, cron, hook, node, child],
    );
    check(
        Query {
            kinds: vec![Kind::Cron],
            ..q()
        },
        &[cron],
    );
    check(
        Query {
            kinds: vec![Kind::Other, Kind::Main, Kind::Main],
            ..q()
        },
        &[main, other, child],
    );
    check(
        Query {
            kinds: vec![Kind::Hook],
            ..q()
        },
        &[],
    );
    check(
        Query {
            kinds: vec![Kind::Hook, Kind::Cron, Kind::Node],
            archived: Archived::Both,
            ..q()
        },
        &[cron, hook, node],
    );
    check(
        Query {
            agent: AgentId::parse("other"),
            ..q()
        },
        &[other, child],
    );
    check(
        Query {
            agent: AgentId::parse("none"),
            ..q()
        },
        &[],
    );
    check(
        Query {
            channel: Some("telegram".into()),
            ..q()
        },
        &[main, group],
    );
    check(
        Query {
            channel: Some(" IRC ".into()),
            ..q()
        },
        &[child],
    );
    check(
        Query {
            channel: Some("internal".into()),
            ..q()
        },
        &[cron],
    );
    check(
        Query {
            channel: Some("discord".into()),
            ..q()
        },
        &[],
    );
    check(
        Query {
            active_since: Some(40),
            ..q()
        },
        &[main, other, group],
    );
    check(
        Query {
            label: Some("Mine".into()),
            ..q()
        },
        &[other],
    );
    check(
        Query {
            label: Some("mine".into()),
            ..q()
        },
        &[],
    );
    check(
        Query {
            spawned_by: Some(key(other)),
            ..q()
        },
        &[child],
    );
    check(
        Query {
            search: Some(" über".into()),
            ..q()
        },
        &[main],
    );
    check(
        Query {
            search: Some("ÜBER HAUS".into()),
            ..q()
        },
        &[main],
    );
    check(
        Query {
            search: Some("mine".into()),
            ..q()
        },
        &[other],
    );
    check(
        Query {
            search: Some("FAMILY".into()),
            ..q()
        },
        &[group],
    );
    check(
        Query {
            search: Some("id-30".into()),
            ..q()
        },
        &[cron],
    );
    check(
        Query {
            search: Some("node".into()),
            archived: Archived::Both,
            ..q()
        },
        &[node],
    );
    check(
        Query {
            search: Some("%".into()),
            ..q()
        },
        &[],
    );
    check(
        Query {
            search: Some("  ".into()),
            ..q()
        },
        &[main, other, group, cron, child],
    );
    check(
        Query {
            search: Some("main".into()),
            kinds: vec![Kind::Cron],
            ..q()
        },
        &[cron],
    );
}

#[tokio::test]
async fn l_21_pages_come_after_filters_and_the_total_is_of_all() {
    let (_dir, store) = a_house().await;
    let check = |offset, limit, expect: &[&str]| {
        let query = Query {
            offset,
            limit,
            ..Query::default()
        };
        assert_eq!(
            keys(&store, &query),
            (expect.iter().map(|&k| k.into()).collect(), 5),
            "{offset} {limit:?}"
        );
    };
    check(0, Some(2), &["agent:main:main", "agent:other:main"]);
    check(
        1,
        Some(2),
        &["agent:other:main", "agent:main:telegram:group:-1"],
    );
    check(4, Some(2), &["agent:other:subagent:u"]);
    check(4, None, &["agent:other:subagent:u"]);
    check(9, Some(2), &[]);
    check(0, Some(0), &[]);
    check(usize::MAX, Some(usize::MAX), &[]);
    let page = store
        .list(
            &Query {
                offset: 1,
                limit: Some(1),
                ..Query::default()
            },
            Some(&|entry: &Entry| entry.agent() == AgentId::main()),
        )
        .unwrap();
    assert_eq!(
        (page.entries[0].key.as_str(), page.entries.len(), page.total),
        ("agent:main:telegram:group:-1", 1, 3)
    );
}

#[tokio::test]
async fn d_6_agents_are_those_that_have_sessions() {
    let (_dir, store) = a_house().await;
    let names = || {
        store
            .agents()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["main", "other"]);
    for name in ["main", "subagent:u", "node-7"] {
        let gone = key(&format!("agent:other:{name}"));
        assert!(store.write(move |tx| tx.delete_entry(&gone)).await.unwrap());
    }
    assert_eq!(names(), ["main"]);
    let gone = key("agent:other:main");
    assert!(!store.write(move |tx| tx.delete_entry(&gone)).await.unwrap());
}

#[tokio::test]
async fn r_3_a_session_id_is_found_in_every_agent_and_archived_too() {
    let (_dir, store) = a_house().await;
    put(
        &store,
        vec![entry(
            "agent:other:hook:y",
            1,
            json!({"sessionId": "id-20"}),
        )],
    )
    .await;
    let found = |id: &str| {
        let entries = store.by_session_id(id).unwrap();
        entries
            .into_iter()
            .map(|e| e.key.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(found("id-20"), ["agent:main:hook:x", "agent:other:hook:y"]);
    assert_eq!(found("ID-20"), [""; 0]);
    assert_eq!(found("the-global"), ["global"]);
}

#[tokio::test]
async fn kinds_are_made_anew_when_the_main_key_changes() {
    let (dir, first) = store();
    put(
        &first,
        vec![
            entry("agent:main:home", 1, json!({"channel": "irc"})),
            entry("agent:main:main", 2, json!({})),
        ],
    )
    .await;
    let mains = |store: &StateStore| {
        keys(
            store,
            &Query {
                kinds: vec![Kind::Main],
                ..Query::default()
            },
        )
    };
    assert_eq!(mains(&first), (vec!["agent:main:main".into()], 1));
    drop(first);
    let second = StateStore::open(&dir.path().join("state"), " Home ").unwrap();
    assert_eq!(
        mains(&second),
        (vec!["agent:main:main".into(), "agent:main:home".into()], 2)
    );
    drop(second);
    let third = StateStore::open(&dir.path().join("state"), "main").unwrap();
    assert_eq!(mains(&third).1, 1);
}

#[tokio::test]
async fn k_11_the_global_session_is_listed_in_its_scope_only() {
    let (dir, mut store) = a_house().await;
    for scope_global in [false, true, false] {
        drop(store);
        store = StateStore::open_scoped(&dir.path().join("state"), "main", scope_global).unwrap();
        let (found, total) = keys(&store, &Query::default());
        assert_eq!(found.contains(&"global".to_owned()), scope_global);
        assert!(!found.contains(&"agent:main:global".to_owned()));
        assert_eq!(total, 5 + usize::from(scope_global));
    }
}

#[tokio::test]
async fn one_bad_record_spoils_no_list() {
    let (dir, store) = a_house().await;
    let database = rusqlite::Connection::open(dir.path().join("state/state.db")).unwrap();
    for bad in ["", "[]", "{\"sessionId\": 7, \"updatedAt\": []}", "{\"x\":"] {
        database
            .execute(
                "UPDATE sessions SET entry = ?1 WHERE key = 'agent:main:main'",
                [bad],
            )
            .unwrap();
        assert_eq!(keys(&store, &Query::default()).0[0], "agent:main:main");
    }
}

/// A page is read off an index, and a total off the tally, or they would grow with the number of sessions.
#[tokio::test]
async fn lists_without_further_filters_scan_nothing() {
    let (dir, store) = a_house().await;
    let database = rusqlite::Connection::open(dir.path().join("state/state.db")).unwrap();
    let plan = |sql: &str| {
        let mut statement = database
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let rows = statement
            .query_map([], |row| row.get::<_, String>(3))
            .unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let order = "ORDER BY updated_at DESC, key LIMIT 9";
    for (condition, index) in [
        ("listed = 1 AND archived = 0", "sessions_order"),
        (
            "listed = 1 AND archived = 0 AND kind = 'main'",
            "sessions_kind",
        ),
        (
            "listed = 1 AND archived = 0 AND agent = 'main'",
            "sessions_agent",
        ),
    ] {
        let plan = plan(&format!(
            "SELECT key, entry, updated_at FROM sessions WHERE {condition} {order}"
        ));
        assert!(
            plan.contains(index) && !plan.contains("TEMP B-TREE") && !plan.contains("SCAN"),
            "{plan}"
        );
    }
    drop(store);
}

#[derive(Debug, Clone)]
enum Step {
    Put(Entry),
    Delete(usize),
}

const NAMES: [&str; 10] = [
    "agent:a:main",
    "agent:b:main",
    "agent:a:cron:j",
    "agent:a:cron:j:run:1",
    "agent:b:hook:h",
    "agent:b:irc:group:g",
    "agent:a:subagent:s",
    "agent:b:node-1",
    "global",
    "agent:a:unknown",
];

fn step() -> impl Strategy<Value = Step> {
    let put = (0..NAMES.len(), 0..20i64, any::<bool>(), any::<bool>()).prop_map(
        |(name, at, archived, group)| {
            let mut members = json!({});
            if archived {
                members["archivedAt"] = json!(at);
            }
            if group {
                members["chatType"] = json!("group");
            }
            Step::Put(entry(NAMES[name], at, members))
        },
    );
    prop_oneof![4 => put, 1 => (0..NAMES.len()).prop_map(Step::Delete)]
}

fn query() -> impl Strategy<Value = Query> {
    (
        prop::sample::subsequence(Kind::ALL.to_vec(), 0..=6),
        prop::sample::select(vec![Archived::Hide, Archived::Only, Archived::Both]),
        prop::option::of(prop::sample::select(vec!["a", "b", "c"])),
        prop::option::of(0..20i64),
        0..6usize,
        prop::option::of(0..6usize),
    )
        .prop_map(
            |(kinds, archived, agent, active_since, offset, limit)| Query {
                kinds,
                archived,
                agent: agent.and_then(AgentId::parse),
                active_since,
                offset,
                limit,
                ..Query::default()
            },
        )
}

/// What the list should be, from a plain map.
fn expected(model: &BTreeMap<String, Entry>, query: &Query) -> (Vec<String>, usize) {
    let mut found: Vec<_> = model
        .values()
        .filter(|entry| {
            !entry.key.is_reserved()
                && !entry.key.is_cron_run()
                && (query.kinds.is_empty() || query.kinds.contains(&row::kind(entry, "main")))
                && query
                    .agent
                    .as_ref()
                    .is_none_or(|agent| entry.agent() == *agent)
                && query
                    .active_since
                    .is_none_or(|since| entry.updated_at >= since)
                && match query.archived {
                    Archived::Hide => entry.archived_at.is_none(),
                    Archived::Only => entry.archived_at.is_some(),
                    Archived::Both => true,
                }
        })
        .collect();
    found.sort_by_key(|entry| (-entry.updated_at, entry.key.clone()));
    let total = found.len();
    let page = found
        .into_iter()
        .skip(query.offset)
        .take(query.limit.unwrap_or(usize::MAX));
    (
        page.map(|entry| entry.key.as_str().to_owned()).collect(),
        total,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// After any changes, any list is what a plain map says, and the tally is what counting says.
    #[test]
    fn lists_and_tally_follow_every_change(
        steps in prop::collection::vec(step(), 1..25),
        queries in prop::collection::vec(query(), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (dir, store) = store();
        let mut model: BTreeMap<String, Entry> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Put(entry) => {
                    let mut kept = entry.clone();
                    if let Some(before) = model.get(entry.key.as_str()) {
                        kept.updated_at = kept.updated_at.max(before.updated_at);
                    }
                    model.insert(entry.key.as_str().into(), kept);
                }
                Step::Delete(name) => drop(model.remove(NAMES[*name])),
            }
        }
        runtime
            .block_on(store.write(move |tx| {
                for step in steps {
                    match step {
                        Step::Put(entry) => tx.put_entry(&entry)?,
                        Step::Delete(name) => drop(tx.delete_entry(&key(NAMES[name]))?),
                    }
                }
                Ok(())
            }))
            .unwrap();
        for query in &queries {
            prop_assert_eq!(keys(&store, query), expected(&model, query), "{:?}", query);
        }
        let database = rusqlite::Connection::open(dir.path().join("state/state.db")).unwrap();
        let rows = |sql: &str| {
            let mut statement = database.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?, row.get::<_, i64>(4)?))).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        };
        prop_assert_eq!(
            rows("SELECT listed, archived, kind, agent, n FROM tally WHERE n <> 0 ORDER BY 1, 2, 3, 4"),
            rows("SELECT listed, archived, kind, agent, count(*) FROM sessions GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4")
        );
    }
}
