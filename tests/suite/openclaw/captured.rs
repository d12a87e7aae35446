//! A real directory of OpenClaw 2026.3.28 against what that gateway itself answered for it.

use super::{captured, tree};
use crosstalk::backend::Backend;
use crosstalk::backend::files::FilesBackend;
use crosstalk::model::message::{Block, Message, Role, Said};
use crosstalk::protocol::methods::{
    Call, Caller, Code, Failure, HistoryRequest, HistorySpan, ListRequest, Reply, Request,
};
use serde_json::{Map, Value, json};
use std::fs;

fn expected(name: &str) -> Value {
    let text = fs::read_to_string(captured().join("expected").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn open() -> FilesBackend {
    FilesBackend::open(&captured().join("state")).unwrap()
}

async fn tool(backend: &FilesBackend, caller: Caller, name: &str, arguments: Value) -> Value {
    let request = Request::Tool {
        name: name.into(),
        arguments,
        call_id: None,
    };
    match backend.call(Call { caller, request }).await.unwrap() {
        Reply::Tool { payload } => payload,
        other => panic!("{other:?}"),
    }
}

/// Members of `row` that `other` has too, by name.
pub(super) fn members(row: &Value, names: &[&str]) -> Value {
    let picked = names
        .iter()
        .map(|name| ((*name).to_owned(), row[*name].clone()))
        .filter(|(_, value)| !value.is_null());
    Value::Object(picked.collect::<Map<_, _>>())
}

#[tokio::test]
async fn the_list_is_that_of_the_gateway() {
    let backend = open();
    let reply = backend
        .call(Request::List(ListRequest::default()).into())
        .await;
    let Ok(Reply::Rows(rows)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((rows.total, rows.all, rows.archived), (10, 10, 0));
    assert_eq!(rows.warnings, []);
    // Not compared: `kind` (the gateway's word is `direct` for all of them), `displayName` (it makes
    // `webchat:g-agent-…` for sessions that are no groups; here a label or nothing stands there), and
    // `parentSessionKey` (it repeats `spawnedBy`, and the index has only that).
    let names = [
        "key",
        "sessionId",
        "updatedAt",
        "label",
        "model",
        "modelProvider",
        "status",
        "startedAt",
        "endedAt",
        "runtimeMs",
        "spawnedBy",
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "contextTokens",
        "abortedLastRun",
        "systemSent",
        "thinkingLevel",
        "deliveryContext",
        "lastChannel",
    ];
    let theirs = expected("sessions.list.json");
    let theirs = theirs["sessions"].as_array().unwrap();
    assert_eq!(rows.rows.len(), theirs.len());
    for (ours, theirs) in rows.rows.iter().zip(theirs) {
        let ours = serde_json::to_value(ours).unwrap();
        assert_eq!(members(&ours, &names), members(theirs, &names));
        // The gateway takes the stored member alone, here the route counts too (K-32).
        assert_eq!(ours["channel"], "webchat");
        assert!(theirs["channel"].is_null() || theirs["channel"] == "webchat");
    }
}

#[tokio::test]
async fn children_are_those_of_the_gateway() {
    let backend = open();
    let reply = backend
        .call(Request::List(ListRequest::default()).into())
        .await;
    let Ok(Reply::Rows(rows)) = reply else {
        panic!("{reply:?}");
    };
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    for theirs in expected("sessions.list.json")["sessions"]
        .as_array()
        .unwrap()
    {
        let row = rows
            .rows
            .iter()
            .find(|row| theirs["key"] == row.key.raw())
            .unwrap();
        let ours = row
            .child_sessions
            .iter()
            .map(|key| key.raw().to_owned())
            .collect();
        let theirs = theirs["childSessions"].as_array().into_iter().flatten();
        let theirs = theirs.map(|key| key.as_str().unwrap().to_owned()).collect();
        assert_eq!(sorted(ours), sorted(theirs), "{:?}", row.key);
    }
}

/// The parts of a message that a person reads.
pub(super) fn readable(said: &Said) -> Vec<String> {
    let parts = said.blocks.iter().map(|block| match block {
        Block::Text(text) => format!("text {}", text.raw()),
        Block::Thinking(text) => format!("thinking {}", text.raw()),
        Block::ToolCall {
            id,
            name,
            arguments,
        } => format!("call {} {} {arguments}", id.raw(), name.raw()),
        // Compared by its type alone: the gateway leaves the data out.
        Block::Image { mime, .. } => format!("image {mime:?}"),
        Block::Unknown { json, .. } => format!("unknown {json}"),
    });
    parts.collect()
}

#[tokio::test]
async fn h_20_histories_are_those_of_the_gateway() {
    let backend = open();
    let expected = expected("chat.history.json");
    let mut compared = 0;
    for (key, theirs) in expected.as_object().unwrap() {
        let request = Request::History(HistoryRequest {
            key: key.as_str().into(),
            span: HistorySpan::Whole,
            limit: None,
        });
        let reply = backend.call(request.into()).await;
        let Ok(Reply::Lines(lines)) = reply else {
            panic!("{key}: {reply:?}");
        };
        assert!(lines.exists && lines.at_start, "{key}");
        let ours: Vec<Message> = lines.lines.iter().filter_map(Message::read).collect();
        let mut ours = ours
            .iter()
            .filter_map(|message| Some((message.id.raw(), message.said()?)));
        for message in theirs.as_array().unwrap() {
            let (id, said) = loop {
                let (id, said) = ours.next().unwrap();
                // The gateway drops a silent answer, here a person sees it too.
                let is_silent = said.role == Role::Assistant && said.text() == "NO_REPLY";
                if !is_silent {
                    break (id, said);
                }
            };
            assert_eq!(message["__openclaw"]["id"], id, "{key}");
            let line = serde_json::from_value(json!({
                "position": 0, "bytes": 0, "line": {"type": "message", "id": id, "message": message}
            }));
            let theirs = Message::read(&line.unwrap()).unwrap();
            let theirs = theirs.said().unwrap();
            assert_eq!(theirs.envelope, None, "the gateway has taken it off");
            assert_eq!(said.role, theirs.role, "{key} {id}");
            assert_eq!(readable(said), readable(theirs), "{key} {id}");
            assert_eq!(said.provenance, theirs.provenance, "{key} {id}");
            assert_eq!(said.stop_reason, theirs.stop_reason, "{key} {id}");
            assert_eq!(said.error, theirs.error, "{key} {id}");
            compared += 1;
        }
        let left: Vec<_> = ours.map(|(id, _)| id).collect();
        assert_eq!(left, Vec::<&str>::new(), "{key}: more than the gateway has");
    }
    assert_eq!(compared, 145);
}

#[tokio::test]
async fn d_4_tools_that_read_work_for_a_person_and_for_a_session() {
    let backend = open();
    let person = Caller::default();
    let listed = tool(
        &backend,
        person.clone(),
        "sessions_list",
        json!({"messageLimit": 1}),
    )
    .await;
    assert_eq!(listed["count"], 10);
    assert_eq!(listed["sessions"][1]["key"], "agent:main:main");
    let history = json!({"sessionKey": "75829860-5252-4f4e-a2e7-781f102b4218", "limit": 2});
    let history = tool(&backend, person.clone(), "sessions_history", history).await;
    assert_eq!(history["sessionKey"], "agent:ops:main");
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
    let agents = tool(&backend, person.clone(), "agents_list", json!({})).await;
    assert_eq!(agents["requester"], "main");
    let ids: Vec<&Value> = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| &agent["id"])
        .collect();
    assert_eq!(ids, ["main", "ops", "research"], "{agents}");
    let odd = tool(&backend, person, "no_such_tool", json!({})).await;
    assert_eq!(odd["status"], "error");

    let ops = Caller {
        session: Some("agent:ops:main".into()),
    };
    let listed = tool(&backend, ops, "sessions_list", json!({"agentId": "ops"})).await;
    let keys: Vec<&Value> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["key"])
        .collect();
    // The directory's own configuration lets every agent see all.
    let expected = [
        "main",
        "agent:ops:nowhere",
        "agent:ops:think",
        "agent:ops:retry",
    ];
    assert_eq!(keys, expected);
    let empty = json!({"sessionKey": "agent:ops:none"});
    let empty = tool(&backend, Caller::default(), "sessions_history", empty).await;
    assert_eq!(
        (&empty["messages"], &empty["bytes"]),
        (&json!([]), &json!(2)),
        "H-12"
    );

    let nobody = Caller {
        session: Some("agent:ops:none".into()),
    };
    let failure = backend
        .call(Call {
            caller: nobody,
            request: Request::List(ListRequest::default()),
        })
        .await
        .unwrap_err();
    assert_eq!(failure.code, Code::NotFound);
}

#[tokio::test]
async fn details_hold_every_stored_member() {
    let backend = open();
    let request = Request::Detail {
        key: "agent:ops:think".into(),
    };
    let reply = backend.call(request.into()).await;
    let Ok(Reply::Detail(detail)) = reply else {
        panic!("{reply:?}");
    };
    let index = captured().join("state/agents/ops/sessions/sessions.json");
    let index: Value = serde_json::from_str(&fs::read_to_string(index).unwrap()).unwrap();
    assert_eq!(detail.entry, index["agent:ops:think"]);
    assert_eq!(detail.row.model, Some("think".into()));
    assert_eq!(detail.send_policy_source, "default");
}

#[tokio::test]
async fn info_says_what_it_is() {
    let reply = open().call(Request::Info {}.into()).await;
    let Ok(Reply::Info(info)) = reply else {
        panic!("{reply:?}");
    };
    assert!(info.read_only);
    assert_eq!(info.source, "openclaw files");
    assert_eq!(
        (info.default_agent.as_str(), info.main_key.as_str()),
        ("main", "main")
    );
    assert!(info.place.raw().ends_with("openclaw-2026.3.28/state"));
    assert_eq!(info.warnings, []);
}

#[tokio::test]
async fn ac_140_nothing_that_changes_is_done_and_nothing_is_changed() {
    let dir = captured().join("state");
    let before = tree(&dir);
    let backend = open();
    let key = || "agent:main:main".into();
    let changing = [
        Request::Send {
            key: key(),
            message: "x".into(),
            run_id: "r".into(),
        },
        Request::Patch {
            key: key(),
            fields: Map::from_iter([("label".to_owned(), json!("x"))]),
        },
        Request::Abort {
            target: key(),
            tree: true,
        },
        Request::Reset { key: key() },
        Request::Archive { key: key() },
        Request::Restore { key: key() },
        Request::Delete { key: key() },
        Request::Incoming {
            channel: "c".into(),
            from: "f".into(),
            owner: true,
            key: key(),
            text: "x".into(),
        },
        Request::Choices {},
        Request::PlayDemo {},
    ];
    for request in changing {
        let shown = format!("{request:?}");
        match backend.call(request.into()).await {
            Err(Failure { code, message }) => {
                assert_eq!(code, Code::Forbidden, "{shown}");
                assert!(
                    message.raw().starts_with("read-only: "),
                    "{shown}: {message:?}"
                );
            }
            Ok(reply) => panic!("{shown}: {reply:?}"),
        }
    }
    for name in ["sessions_send", "sessions_spawn"] {
        let arguments = json!({"sessionKey": "main", "message": "x", "task": "x"});
        let payload = tool(&backend, Caller::default(), name, arguments).await;
        assert_eq!(payload["status"], "error", "{name}");
        assert!(
            payload["error"]
                .as_str()
                .unwrap()
                .starts_with("read-only: "),
            "{payload}"
        );
    }
    let mut events = backend.events(None);
    assert!(events.recv().await.is_some());
    let list = ListRequest {
        messages: 5,
        archived_too: true,
        ..ListRequest::default()
    };
    let reply = backend.call(Request::List(list).into()).await.unwrap();
    let Reply::Rows(rows) = reply else {
        panic!("{reply:?}")
    };
    for row in rows.rows {
        for span in [
            HistorySpan::Tail,
            HistorySpan::Whole,
            HistorySpan::Before(500),
            HistorySpan::After(0),
        ] {
            let request = HistoryRequest {
                key: row.key.clone(),
                span,
                limit: Some(3),
            };
            backend
                .call(Request::History(request).into())
                .await
                .unwrap();
        }
        backend
            .call(Request::Detail { key: row.key }.into())
            .await
            .unwrap();
    }
    assert_eq!(tree(&dir), before);
}
