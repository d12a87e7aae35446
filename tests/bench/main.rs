//! Measurements: ratios within one run, printed as JSON, one line each.
//!
//! `cargo bench` runs the short form; `cargo bench -- --full` the sizes that the figures in the README speak of, and
//! `cargo bench -- NAME…` only those named. Nothing here passes or fails: a figure is for a reader to judge.

use crosstalk::agents::scripted::Directives;
use crosstalk::app::event::{Event, What};
use crosstalk::app::geometry::Size;
use crosstalk::app::sessions::Sort;
use crosstalk::app::update::{update, update_in_burst};
use crosstalk::app::{App, Setup};
use crosstalk::config::{AgentSettings, Runtime, Settings};
use crosstalk::engine::context::Context;
use crosstalk::engine::{Engine, Options};
use crosstalk::model::key::{AgentId, SessionKey};
use crosstalk::model::message::{Message, RawLine};
use crosstalk::model::session::{Entry, Row};
use crosstalk::model::visibility::Level;
use crosstalk::store::state::StateStore;
use crosstalk::store::{Query, Sessions, Span, transcript};
use crosstalk::text::mask::Masker;
use crosstalk::ui::{Cache, ColorDepth, Theme, UiOptions, paint};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const NOW: i64 = 1_796_000_000_000;

/// Median of some runs, in microseconds.
fn median(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn report(name: &str, small: f64, large: f64, what: &Value) {
    let line = json!({
        "bench": name, "small_us": small.round(), "large_us": large.round(),
        "ratio": (large / small * 100.0).round() / 100.0, "of": what,
    });
    println!("{line}");
}

fn fill(path: &Path, bytes: usize) {
    let text = "lorem ipsum dolor sit amet ".repeat(40);
    let mut written = 0;
    let mut n = 0_u64;
    while written < bytes {
        let lines: Vec<Value> = (0..500)
            .map(|_| {
                n += 1;
                let role = if n.is_multiple_of(2) { "assistant" } else { "user" };
                let message = json!({ "role": role, "content": [{ "type": "text", "text": text }], "timestamp": NOW });
                json!({ "type": "message", "id": format!("{n:08x}"), "message": message })
            })
            .collect();
        written += lines
            .iter()
            .map(|line| line.to_string().len() + 1)
            .sum::<usize>();
        transcript::append(path, &lines, false).expect("the temporary directory can be written");
    }
}

/// The newest 200 messages of a large transcript against those of a small one.
fn tail(full: bool) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (small, large) = (
        dir.path().join("small.jsonl"),
        dir.path().join("large.jsonl"),
    );
    let megabytes = if full { 1024 } else { 64 };
    fill(&small, 1 << 20);
    fill(&large, megabytes << 20);
    let time = |path: &Path| {
        median(21, || {
            let page = transcript::read(path, Span::Tail, 200).expect("it can be read");
            assert!(page.lines.len() >= 200);
        })
    };
    report(
        "tail_200",
        time(&small),
        time(&large),
        &json!({ "small_mb": 1, "large_mb": megabytes }),
    );
}

fn entry(n: usize) -> Entry {
    let kinds = [
        "main",
        "telegram:group:",
        "cron:job",
        "hook:",
        "node-",
        "direct:peer",
    ];
    let rest = format!("{}{n}", kinds[n % kinds.len()]);
    let key = SessionKey::of(&AgentId::mend(&format!("agent{}", n % 7)), &rest);
    let mut entry = Entry::new(key, format!("session-{n}"), NOW - n as i64 * 1000);
    entry.display_name = Some(format!("session {n}").as_str().into());
    entry
}

fn filled(dir: &Path, sessions: usize, runtime: &tokio::runtime::Runtime) -> StateStore {
    let store = StateStore::open(dir, "main").expect("a new state");
    runtime
        .block_on(store.write(move |tx| {
            for n in 0..sessions {
                tx.put_entry(&entry(n))?;
            }
            Ok(())
        }))
        .expect("sessions can be stored");
    store
}

/// First page and total of many own sessions against few.
fn list(runtime: &tokio::runtime::Runtime) {
    let time = |sessions: usize| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = filled(dir.path(), sessions, runtime);
        let query = Query {
            limit: Some(100),
            ..Query::default()
        };
        median(51, || {
            let page = store.list(&query, None).expect("it can be listed");
            assert_eq!((page.entries.len(), page.total), (100, sessions));
        })
    };
    report(
        "first_page",
        time(1000),
        time(100_000),
        &json!({ "small": 1000, "large": 100_000 }),
    );
}

fn browser(sessions: usize, messages: usize) -> App {
    let mut app = App::new(Setup {
        source: "bench".into(),
        size: Size {
            columns: 120,
            rows: 36,
        },
        now_ms: NOW,
        ..Setup::default()
    });
    let rows: Vec<Row> = (0..sessions)
        .map(|n| serde_json::from_value(row(n, NOW - n as i64 * 1000)).expect("a row"))
        .collect();
    app.sessions.replace(&rows, NOW);
    app.transcript.key = app.sessions.selected.clone();
    app.transcript.items = (0..messages)
        .filter_map(|n| {
            let content = json!([{ "type": "text", "text": format!("message {n}: **bold** and `code`, some words more") }]);
            let message = json!({ "role": "assistant", "content": content, "timestamp": NOW });
            let line = json!({ "type": "message", "id": format!("{n}"), "message": message });
            Message::read(&RawLine { position: n as u64, bytes: 100, line, damage: None })
        })
        .collect();
    app
}

/// A frame with very much in it against one with little.
fn frame() {
    let time = |app: &App| {
        let theme = Theme::load("dusk", ColorDepth::True).expect("a built-in theme");
        let mut cache = Cache::new(UiOptions {
            theme,
            ascii: false,
        });
        let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 36));
        paint(app, &mut cache, &mut buffer);
        median(101, || {
            buffer.reset();
            paint(app, &mut cache, &mut buffer);
        })
    };
    let (little, much) = (browser(10, 10), browser(100_000, 2000));
    report(
        "frame",
        time(&little),
        time(&much),
        &json!({ "small": "10 sessions, 10 messages", "large": "100,000 sessions, 2,000 messages" }),
    );
}

/// A session as its row says; every fourth was spawned by the one before.
fn row(n: usize, updated_at: i64) -> Value {
    let mut row = json!({
        "key": entry(n).key, "kind": "other", "channel": "webchat", "displayName": format!("session {n}"),
        "updatedAt": updated_at, "sessionId": format!("session-{n}"),
    });
    if n % 4 == 3 {
        row["spawnedBy"] = json!(entry(n - 1).key);
    }
    row
}

/// Changes of the list with very many sessions, in frames of 60 a second.
fn rebuild() {
    const SESSIONS: usize = 100_000;
    let mut app = browser(SESSIONS, 0);
    let budget = 1e6 / 60.0;
    let in_frames = |name: &str, time: f64| {
        report(name, budget, time, &json!({ "sessions": SESSIONS }));
    };
    let time = median(11, || app.sessions.rebuild(NOW));
    in_frames("list_change_in_frames", time);
    for sort in Sort::ALL {
        app.sessions.sort = sort;
        let begun = Instant::now();
        app.sessions.rebuild(NOW);
        let first = begun.elapsed().as_secs_f64() * 1e6;
        in_frames(&format!("sort_{}_first_in_frames", sort.as_str()), first);
        let time = median(11, || app.sessions.rebuild(NOW));
        in_frames(&format!("sort_{}_in_frames", sort.as_str()), time);
    }
    app.sessions.sort = Sort::Recent;
    for (name, text) in [
        ("fuzzy_one_letter_in_frames", "s"),
        ("fuzzy_word_in_frames", "sess"),
        ("fuzzy_few_in_frames", "99 telegram"),
    ] {
        app.sessions.filters.text = text.into();
        let time = median(11, || app.sessions.rebuild(NOW));
        in_frames(name, time);
    }
    app.sessions.filters.text = "".into();
    app.sessions.tree = false;
    let time = median(11, || app.sessions.rebuild(NOW));
    in_frames("flat_change_in_frames", time);
    app.sessions.tree = true;
    app.sessions.rebuild(NOW);
    burst(&mut app, SESSIONS);
    let time = median(11, || {
        update(
            &mut app,
            Event {
                now_ms: NOW,
                what: What::Tick,
            },
        );
    });
    in_frames("tick_in_frames", time);
}

/// Events of sessions and runs as they come, each alone and in bursts with one drawing, against a millisecond each.
fn burst(app: &mut App, sessions: usize) {
    const EVENTS: usize = 64;
    let mut n = 0;
    let mut next = || {
        n += 1;
        let run = n / 3;
        let which = run * 7919 % sessions;
        let what = match n % 3 {
            0 => json!({ "type": "run.started", "runId": format!("r{run}"), "origin": "operator" }),
            1 => {
                json!({ "type": "run.ended", "runId": format!("r{run}"), "origin": "operator", "outcome": "ok" })
            }
            _ => json!({ "type": "session.changed", "row": row(which, NOW + n as i64) }),
        };
        let mut event =
            json!({ "seq": n, "at": NOW, "cursor": "c", "sessionKey": entry(which).key });
        if let (Some(event), Value::Object(what)) = (event.as_object_mut(), what) {
            event.extend(what);
        }
        let event = serde_json::from_value(event).expect("an event");
        Event {
            now_ms: NOW,
            what: What::Backend(Box::new(event)),
        }
    };
    for (name, each) in [("event_alone_in_ms", true), ("event_of_64_in_ms", false)] {
        let events: Vec<Vec<Event>> = (0..11)
            .map(|_| (0..EVENTS).map(|_| next()).collect())
            .collect();
        let mut events = events.into_iter();
        let time = median(11, || {
            for event in events.next().expect("as many as there are runs") {
                if each {
                    update(app, event);
                } else {
                    update_in_burst(app, event);
                }
            }
            app.settle();
        });
        let what = json!({ "sessions": sessions, "events": EVENTS });
        report(name, 1000.0, time / EVENTS as f64, &what);
    }
}

/// Masking a text of twice the length against twice the time of one.
fn masking() {
    let masker = Masker::builtin();
    for (name, piece) in [
        ("mask_dashes", "-"),
        ("mask_beginnings", "sk-"),
        ("mask_prose", "token of thanks: none; "),
    ] {
        let time = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            median(5, || {
                masker.mask(&text);
            })
        };
        report(
            name,
            2.0 * time(1 << 19),
            time(1 << 20),
            &json!("time of twice the text / twice the time"),
        );
    }
}

fn settings(agents: usize) -> Settings {
    let agent = |n: usize| AgentSettings {
        id: AgentId::mend(&format!("agent{n}")),
        default: n == 0,
        name: None,
        workspace: None,
        model: None,
        runtime: Runtime::Directives,
        sandbox_mode: None,
        sandbox_wrapper: None,
        allow_agents: None,
        subagent_model: None,
        subagent_thinking: None,
        require_agent_id: None,
    };
    let mut settings = Settings {
        agents: (0..agents).map(agent).collect(),
        visibility: Level::All,
        ..Settings::default()
    };
    settings.cross_agent.enabled = true;
    settings.max_ping_pong_turns = 0;
    settings
}

/// Durable sends with many sessions in the store against few: time for each, acceptance to answer.
fn sends(full: bool, runtime: &tokio::runtime::Runtime) {
    let _: Directives = Directives;
    let count = if full { 2000 } else { 200 };
    let time = |sessions: usize| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = filled(dir.path(), sessions, runtime);
        runtime.block_on(async {
            let engine = Engine::open(store, settings(7), Options::default()).await.expect("an engine");
            let begun = Instant::now();
            let sends = (0..count).map(|n| {
                let (engine, ctx) = (engine.clone(), Context::person(&engine.settings()));
                let arguments = json!({ "sessionKey": format!("agent:agent{}:direct:peer{}", n % 7, n % 100), "message": "[[reply:ok]]" });
                async move { engine.call_tool(ctx, "sessions_send", arguments).await }
            });
            let answers = futures_util::future::join_all(sends).await;
            assert!(answers.iter().all(|answer| answer["status"] == "ok"));
            let each = begun.elapsed().as_secs_f64() * 1e6 / f64::from(count);
            engine.shutdown().await;
            each
        })
    };
    let (few, many) = (time(10), time(10_000));
    report(
        "durable_send",
        few,
        many,
        &json!({ "small": "10 sessions", "large": "10,000 sessions", "sends_per_second": (1e6 / many).round() }),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let full = arguments.iter().any(|argument| argument == "--full");
    let named: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|wanted| *wanted == name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    if wanted("tail") {
        tail(full);
    }
    if wanted("list") {
        list(&runtime);
    }
    if wanted("frame") {
        frame();
        rebuild();
    }
    if wanted("mask") {
        masking();
    }
    if wanted("sends") {
        sends(full, &runtime);
    }
}
