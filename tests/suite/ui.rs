//! The screen: snapshots at several sizes, and what must hold at every size and for every text.

use crosstalk::app::compose::Sent;
use crosstalk::app::geometry::Size;
use crosstalk::app::spawn::{Attachment, AttachmentState, Choice, Field, Offer, SpawnForm};
use crosstalk::app::transcript::{Ending, Load, Scroll, Stream};
use crosstalk::app::{App, Focus, Header, Layer, Link, Setup, draft::Draft};
use crosstalk::app::{Prompt, Purpose, Toast, Tone, details, menu};
use crosstalk::model::event::SendState;
use crosstalk::model::key::SessionKey;
use crosstalk::model::message::{Message, RawLine};
use crosstalk::model::run::Outcome;
use crosstalk::model::session::Row;
use crosstalk::protocol::methods::{Choices, Info};
use crosstalk::store::client::LedgerEntry;
use crosstalk::text::{Clean, Untrusted, mask::Masker};
use crosstalk::ui::theme::Role;
use crosstalk::ui::{Cache, ColorDepth, Theme, UiOptions, paint, svg};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

/// Mon 30 Nov 2026, 14:02:10 UTC.
const NOW: i64 = 1_796_047_330_000;

fn cache() -> Cache {
    cache_of("dusk", ColorDepth::True, false)
}

fn cache_of(theme: &str, depth: ColorDepth, ascii: bool) -> Cache {
    let theme = Theme::load(theme, depth).unwrap();
    Cache::in_zone(UiOptions { theme, ascii }, TimeZone::UTC)
}

fn buffer(width: u16, height: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, width, height))
}

/// The cells as text; a wide character's second cell is left out, as a terminal shows it.
fn text(buffer: &Buffer) -> String {
    let area = buffer.area();
    let mut out = String::new();
    for y in area.top()..area.bottom() {
        let mut line = String::new();
        let mut skip = 0;
        for x in area.left()..area.right() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = crosstalk::text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn shown(app: &App, width: u16, height: u16) -> String {
    let mut buffer = buffer(width, height);
    paint(app, &mut cache(), &mut buffer);
    text(&buffer)
}

fn row(value: Value) -> Row {
    serde_json::from_value(value).unwrap()
}

fn rows() -> Vec<Row> {
    let ago = |s: i64| NOW - s * 1000;
    [
        json!({"key": "agent:ops:main", "kind": "main", "channel": "webchat", "updatedAt": ago(1), "model": "sonnet",
               "totalTokens": 12_412, "contextTokens": 200_000, "status": "running", "sendPolicy": "allow"}),
        json!({"key": "agent:ops:subagent:11111111-1111-4111-8111-111111111111", "kind": "other", "channel": "webchat",
               "label": "scan logs", "updatedAt": ago(14), "spawnedBy": "agent:ops:main", "status": "running"}),
        json!({"key": "agent:ops:subagent:22222222-2222-4222-8222-222222222222", "kind": "other", "channel": "webchat",
               "label": "triage", "updatedAt": ago(190), "spawnedBy": "agent:ops:main", "status": "done"}),
        json!({"key": "agent:ops:subagent:33333333-3333-4333-8333-333333333333", "kind": "other", "channel": "webchat",
               "label": "read the deploy log again", "updatedAt": ago(260), "spawnedBy": "agent:ops:main", "status": "failed"}),
        json!({"key": "agent:ops:discord:channel:deploys", "kind": "group", "channel": "discord",
               "displayName": "#deploys", "updatedAt": ago(130)}),
        json!({"key": "agent:main:telegram:group:family", "kind": "group", "channel": "telegram",
               "displayName": "family 家族 👨‍👩‍👧", "updatedAt": ago(9 * 60), "queued": 1}),
        json!({"key": "agent:research:main", "kind": "main", "channel": "webchat", "updatedAt": ago(8)}),
        json!({"key": "agent:main:cron:nightly-digest", "kind": "cron", "channel": "internal", "updatedAt": ago(3700)}),
        json!({"key": "agent:main:hook:1f3c", "kind": "hook", "channel": "internal", "updatedAt": ago(3 * 3600)}),
        json!({"key": "agent:main:node-pi4", "kind": "node", "channel": "internal", "updatedAt": ago(25 * 3600)}),
    ]
    .into_iter()
    .map(row)
    .collect()
}

fn messages(lines: &[Value]) -> Vec<Message> {
    lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| {
            Message::read(&RawLine {
                position: at as u64 * 100,
                bytes: 90,
                line: line.clone(),
                damage: None,
            })
        })
        .collect()
}

fn said(role: &str, seconds_ago: i64, content: Value, more: Value) -> Value {
    let mut message =
        json!({"role": role, "content": content, "timestamp": NOW - seconds_ago * 1000});
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"type": "message", "id": format!("m{seconds_ago}"), "message": message})
}

fn peer(from: &str, tool: &str) -> Value {
    json!({"provenance": {"kind": "inter_session", "sourceSessionKey": from, "sourceTool": tool}})
}

fn conversation() -> Vec<Message> {
    let mut all = messages(&[
        said(
            "user",
            90_000,
            json!("Keep an eye on the deploys today, please."),
            json!({}),
        ),
        said(
            "user",
            18,
            json!("Is staging green after the 13:40 deploy?"),
            peer("agent:research:main", "sessions_send"),
        ),
        said(
            "assistant",
            12,
            json!([
                {"type": "thinking", "thinking": "I should look at the graph first, then answer."},
                {"type": "text", "text": "Yes. Last deploy 13:40, error rate **0.02 %**:\n\n| service | p99 | errors |\n|---|--:|--:|\n| checkout | 81 ms | 0.02 % |\n| 搜索 search | 140 ms | 0 % |\n"},
                {"type": "toolCall", "id": "c1", "name": "sessions_history", "arguments": {"sessionKey": "agent:main:main", "limit": 5}},
                {"type": "toolCall", "id": "c2", "name": "sessions_send", "arguments": {"sessionKey": "agent:research:main", "message": "hi"}},
            ]),
            json!({"model": "sonnet", "usage": {"input": 900, "output": 312, "totalTokens": 1212, "cost": {"total": 0.002}}}),
        ),
        said(
            "toolResult",
            11,
            json!([{"type": "text", "text": "line\n".repeat(30)}]),
            json!({"toolCallId": "c1", "toolName": "sessions_history"}),
        ),
        said(
            "toolResult",
            9,
            json!([{"type": "text", "text": "{\"status\": \"forbidden\"}"}]),
            json!({"toolCallId": "c2", "toolName": "sessions_send", "isError": true}),
        ),
        json!({"type": "compaction", "id": "k", "summary": "Deploys are watched; staging is green.", "timestamp": NOW - 8000}),
        said(
            "user",
            7,
            json!("Status: completed successfully\n\nResult: 3 errors"),
            peer(
                "agent:ops:subagent:22222222-2222-4222-8222-222222222222",
                "subagent_announce",
            ),
        ),
        said("assistant", 5, json!("REPLY_SKIP"), json!({})),
        said(
            "assistant",
            4,
            json!("The rollback window closes"),
            json!({"stopReason": "aborted"}),
        ),
    ]);
    all.push(
        Message::read(&RawLine {
            position: 5000,
            bytes: 1300,
            line: Value::Null,
            damage: Some(crosstalk::model::message::Damage::NotJson),
        })
        .unwrap(),
    );
    all
}

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

/// A browser with sessions and an open transcript.
fn app() -> App {
    let mut app = App::new(Setup {
        source: Clean::fixed("embedded"),
        masker: Masker::builtin(),
        size: Size {
            columns: 120,
            rows: 36,
        },
        now_ms: NOW,
        ..Setup::default()
    });
    app.header = Header {
        source: Clean::fixed("embedded"),
        info: Some(Info {
            source: "embedded".into(),
            demo: true,
            ..Info::default()
        }),
        link: Link::Live,
    };
    app.sessions.selected = Some(key("agent:ops:main"));
    app.sessions.replace(&rows(), NOW);
    let t = &mut app.transcript;
    t.key = Some(key("agent:ops:main"));
    t.load = Load::Ready;
    t.items = conversation();
    t.at_start = true;
    t.cursor = Some(200);
    t.generation = 1;
    app.compose.target = Some(key("agent:ops:main"));
    app
}

fn stream() -> Stream {
    Stream {
        run_id: "r1".into(),
        text: "The rollback window closes at 14:10, so I would".into(),
        thinking: None,
        tools: Vec::new(),
        started_at: NOW - 2000,
        revision: 1,
    }
}

fn offers(labels: &[&'static str]) -> Choice {
    Choice {
        options: labels
            .iter()
            .map(|label| Offer {
                value: Some((*label).to_owned()),
                label: Clean::fixed(label),
                blocked: None,
            })
            .collect(),
        chosen: 0,
    }
}

fn spawn_form() -> SpawnForm {
    let mut mode = offers(&["run", "session"]);
    mode.options[1].blocked = Some(Clean::fixed("needs thread on"));
    mode.chosen = 1;
    SpawnForm {
        parent: key("agent:ops:main"),
        task: Draft::new(
            &"Read the last 200 lines of the deploy log and list every error with its first occurrence.".into(),
        ),
        agent: offers(&["ops (own)", "main", "research"]),
        label: Draft::line(&"scan logs".into()),
        model: offers(&["inherit: sonnet", "haiku"]),
        thinking: offers(&["inherit"]),
        run_limit: Draft::line(&"0".into()),
        cleanup: offers(&["keep"]),
        mode,
        thread: offers(&["off"]),
        sandbox: offers(&["inherit"]),
        attachments: vec![Attachment {
            path: "/tmp/deploy.log".into(),
            name: Clean::fixed("deploy.log"),
            state: AttachmentState::Read(vec![b'x'; 48_000]),
        }],
        file: 0,
        attach: Draft::line(&"".into()),
        field: Field::Task,
        errors: vec![(
            Some(Field::Model),
            Clean::fixed("model \"gpt-9\" is not known: one of sonnet, haiku, local/llama"),
        )],
        offered: Some(Choices::default()),
        report_to: Clean::fixed("webchat"),
        busy: false,
        top: 0,
    }
}

fn pager() -> details::Pager {
    details::Pager {
        title: Clean::fixed("main · agent:ops:main"),
        lines: vec![
            details::PagerLine::Heading(Clean::fixed("Session")),
            details::PagerLine::Fact(Clean::fixed("key"), Clean::fixed("agent:ops:main")),
            details::PagerLine::Fact(Clean::fixed("send policy"), Clean::fixed("allow (rule 2)")),
            details::PagerLine::Text(Clean::fixed(
                "{\n  \"sessionId\": \"a long line that has to be wrapped because it does not fit into the dialog at all, not even nearly\"\n}",
            )),
        ],
        top: 0,
        loading: true,
    }
}

fn a_menu(filter: bool) -> menu::Menu {
    let mut menu = menu::Menu::new(
        Clean::fixed("Send policy"),
        vec![
            menu::Item::new("inherit", menu::Pick::Close)
                .marked(true)
                .letter('i'),
            menu::Item::new("allow", menu::Pick::Close).letter('a'),
            menu::Item::new("deny", menu::Pick::Close)
                .letter('d')
                .detail(Clean::fixed("nobody can send here")),
        ],
    );
    menu.note = vec![Clean::fixed("Who may send to agent:ops:main?")];
    menu.items[1].blocked = Some(Clean::fixed("the source is read-only"));
    menu.filter = filter.then(|| Draft::line(&"al".into()));
    menu
}

/// Every layer there is, by a name.
fn layers() -> Vec<(&'static str, Layer)> {
    let prompt = |purpose| Prompt {
        title: Clean::fixed("Rename"),
        draft: Draft::line(&"a new name that is rather long and goes on".into()),
        purpose,
        error: Some(Clean::fixed("label \"x\" is in use by agent:main:main")),
    };
    vec![
        ("help", Layer::Help { top: 0 }),
        ("spawn", Layer::Spawn),
        ("details", Layer::Details(pager())),
        ("json", Layer::Json(pager())),
        ("hidden", Layer::Hidden(pager())),
        ("menu", Layer::Menu(a_menu(false))),
        ("palette", Layer::Palette(a_menu(true))),
        (
            "rename",
            Layer::Prompt(prompt(Purpose::Rename(key("agent:ops:main")))),
        ),
        ("search", Layer::Prompt(prompt(Purpose::Search))),
    ]
}

/// Prints a scene, for people who work on it: `SHOW=1 cargo test --test suite ui::show -- --nocapture`.
#[test]
fn show() {
    if std::env::var_os("SHOW").is_none() {
        return;
    }
    for (width, height) in [(120, 36), (80, 24), (44, 14)] {
        for (name, app) in scenes() {
            println!(
                "=== {name} {width}x{height}\n{}",
                shown(&app, width, height)
            );
            if let Some(dir) = std::env::var_os("SHOW_SVG") {
                for theme in ["dusk", "dawn"] {
                    let mut cache = cache_of(theme, ColorDepth::True, false);
                    let mut buffer = buffer(width, height);
                    paint(&app, &mut cache, &mut buffer);
                    let theme_ = Theme::load(theme, ColorDepth::True).unwrap();
                    let file = format!("{name}-{width}-{theme}.svg");
                    std::fs::write(
                        std::path::Path::new(&dir).join(file),
                        svg(&buffer, &theme_, "crosstalk"),
                    )
                    .unwrap();
                }
            }
        }
    }
}

/// Named states of the screen.
fn scenes() -> Vec<(&'static str, App)> {
    let mut all = Vec::new();
    all.push(("browse", app()));

    let mut tools = app();
    tools.focus = Focus::Transcript;
    tools.transcript.show_tools = true;
    tools.transcript.show_reasoning = true;
    tools.transcript.scroll = Scroll::At {
        position: 200,
        line: 0,
    };
    all.push(("tools", tools));

    let mut live = app();
    live.focus = Focus::Compose;
    live.compose.draft = Draft::new(&"Hold the rollback until 14:10".into());
    live.compose.ledger = vec![Sent {
        entry: LedgerEntry {
            send_id: "s".into(),
            target: "agent:ops:main".into(),
            requester: None,
            text: "x".into(),
            wait_s: 30,
            state: SendState::Queued,
            reply: None,
            error: None,
            sent_at: NOW - 3000,
            changed_at: NOW - 3000,
        },
        queued_behind: Some(2),
        wait_until: Some(NOW + 20_000),
    }];
    live.transcript.streams = vec![stream()];
    live.transcript.endings = vec![Ending {
        run_id: "r0".into(),
        after: Some(800),
        outcome: Outcome::Error,
        error: Some("the model is overloaded".into()),
        at: NOW - 3000,
    }];
    live.toast = Some(Toast {
        text: Clean::fixed("copied the key"),
        tone: Tone::Good,
        until: NOW + 1000,
    });
    all.push(("compose", live));

    let mut reading = app();
    reading.focus = Focus::Transcript;
    reading.transcript.scroll = Scroll::At {
        position: 100,
        line: 0,
    };
    reading.transcript.new_below = 2;
    reading.transcript.loading_older = true;
    reading.transcript.search = Some(crosstalk::app::transcript::Search {
        text: "deploy".into(),
        hits: vec![0, 200],
    });
    all.push(("reading", reading));

    let mut offline = app();
    offline.header.link = Link::Offline {
        since: NOW - 120_000,
        reason: Some("connection refused".into()),
    };
    offline.sessions.filters.text = "zzz".into();
    offline.sessions.rebuild(NOW);
    offline.transcript = crosstalk::app::transcript::Transcript::default();
    all.push(("nothing", offline));

    for (name, layer) in layers() {
        let mut with = app();
        with.spawn = Some(spawn_form());
        with.layers = vec![layer];
        all.push((name, with));
    }
    all
}

/// What holds for every cell: one visible symbol, wide ones with the blank cells they cover.
fn assert_sound(buffer: &Buffer, what: &str) {
    let area = buffer.area();
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            assert!(
                !symbol.chars().any(char::is_control),
                "{what}: control character at {x},{y}: {symbol:?}"
            );
            let width = crosstalk::text::width(symbol);
            assert!(width >= 1, "{what}: nothing visible at {x},{y}: {symbol:?}");
            for covered in 1..width {
                let next = x + u16::try_from(covered).unwrap();
                assert!(next < area.right(), "{what}: {symbol:?} straddles the edge");
                assert_eq!(buffer[(next, y)].symbol(), " ", "{what}: at {next},{y}");
            }
            x += u16::try_from(width).unwrap();
        }
    }
}

#[test]
fn draws_every_scene_at_every_size() {
    let scenes = scenes();
    let mut kept = cache();
    for width in 1..=60 {
        for height in 1..=20 {
            for (name, app) in &scenes {
                let mut buffer = buffer(width, height);
                let (view, cursor) = paint(app, &mut kept, &mut buffer);
                let what = format!("{name} {width}x{height}");
                assert_sound(&buffer, &what);
                assert!(cursor.is_none_or(|c| c.x < width && c.y < height), "{what}");
                for (spot, is) in &view.spots {
                    let inside = spot.x + spot.width <= width && spot.y + spot.height <= height;
                    assert!(inside, "{what}: {is:?} at {spot:?}");
                }
            }
        }
    }
}

#[test]
fn says_when_the_terminal_is_too_small() {
    let app = app();
    assert_eq!(
        shown(&app, 39, 12).replace('\n', " ").trim(),
        "terminal too small (39x12), needs 40x12"
    );
    assert!(shown(&app, 60, 11).starts_with("terminal too small (60x11), needs 40x12\n"));
    assert!(!shown(&app, 40, 12).contains("too small"));
    shown(&app, 1, 1);
}

#[test]
fn a_cache_changes_no_cell() {
    for (width, height) in [(120, 36), (80, 24), (44, 14)] {
        let mut kept = cache();
        for (name, app) in scenes() {
            let (mut warm, mut cold) = (buffer(width, height), buffer(width, height));
            let with = paint(&app, &mut kept, &mut warm);
            let without = paint(&app, &mut cache(), &mut cold);
            assert_eq!(warm, cold, "{name} {width}x{height}");
            assert_eq!(with, without, "{name} {width}x{height}");
        }
    }
}

/// Strings that try things.
const HOSTILE: &[&str] = &[
    "\u{1b}[2J\u{1b}[31mred\u{7}",
    "\u{202e}gnp.exe\u{202d}",
    "a\u{200b}\u{200d}\u{feff}b",
    "Z\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}",
    "\r\n\tline\u{85}next\u{2028}sep",
    "&#27;[31m &#x202e; &#7;",
    "```\n\u{1b}]0;title\u{7}\n```",
    "| a |\n|---|\n| \u{1b}[1m |",
    "[x](http://a/\u{1b}[0m) ![y](z\u{7})",
    "家族👨‍👩‍👧🇩🇪ﷺ",
    "> > > > > > > > > > > > > > > > > > > > deep\n1. 1. 1. 1. 1. 1. x",
];

/// An app in which every text from outside is `text`.
fn hostile(text: &str) -> App {
    let mut app = app();
    let value = json!(text);
    let mut all = rows();
    for row in &mut all {
        row.display_name = Some(text.into());
        row.label = Some(text.into());
        row.channel = text.into();
        row.model = Some(text.into());
    }
    app.sessions.replace(&all, NOW);
    let call = json!([
        {"type": "toolCall", "id": text, "name": text, "arguments": {text: text, "path": text}},
        {"type": "thinking", "thinking": text},
        {"type": text, "data": text},
        {"type": "image", "mimeType": text, "data": text},
        {"type": "text", "text": text},
    ]);
    app.transcript.items = messages(&[
        said("user", 9, value.clone(), json!({})),
        said("user", 8, value.clone(), peer(text, text)),
        said(
            "assistant",
            7,
            call,
            json!({"model": text, "stopReason": text, "errorMessage": text}),
        ),
        said(
            "toolResult",
            6,
            value.clone(),
            json!({"toolCallId": text, "toolName": text}),
        ),
        said(text, 5, value.clone(), json!({})),
        json!({"type": text, "id": "n"}),
        json!({"type": "compaction", "id": "c", "summary": text}),
        json!({"type": "custom_message", "id": "d", "content": text}),
    ]);
    app.transcript.show_tools = true;
    app.transcript.show_reasoning = true;
    app.transcript.scroll = Scroll::At {
        position: 0,
        line: 0,
    };
    let mut writing = stream();
    writing.text = text.into();
    writing.thinking = Some(text.into());
    app.transcript.streams = vec![writing];
    app.transcript.endings = vec![Ending {
        run_id: "r".into(),
        after: None,
        outcome: Outcome::Error,
        error: Some(text.into()),
        at: NOW,
    }];
    app.compose.draft = Draft::new(&text.into());
    app.focus = Focus::Compose;
    app.header.link = Link::Offline {
        since: NOW,
        reason: Some(text.into()),
    };
    app.sessions.filters.text = Untrusted::default();
    app
}

/// The frames of the two panes stand, whatever is inside.
fn assert_framed(buffer: &Buffer, what: &str) {
    let edges = [0, 43, 44, buffer.area().right() - 1];
    for y in 1..buffer.area().bottom() - 1 {
        for x in edges {
            let symbol = buffer[(x, y)].symbol();
            assert!(
                ["│", "╭", "╮", "╰", "╯", "▐"].contains(&symbol),
                "{what}: {symbol:?} on the frame at {x},{y}"
            );
        }
    }
}

fn check_hostile(text: &str, width: u16, height: u16, toggles: (bool, bool)) {
    let mut app = hostile(text);
    app.transcript.raw = toggles.0;
    app.transcript.show_secrets = toggles.1;
    let mut buffer = buffer(width, height);
    paint(&app, &mut cache(), &mut buffer);
    assert_sound(&buffer, text);
    if width >= 96 && height >= 20 {
        assert_framed(&buffer, text);
    }
    app.spawn = Some(SpawnForm {
        task: Draft::new(&text.into()),
        label: Draft::line(&text.into()),
        ..spawn_form()
    });
    for (name, layer) in layers() {
        app.layers = vec![layer];
        buffer.reset();
        paint(&app, &mut cache(), &mut buffer);
        assert_sound(&buffer, name);
    }
    let picture = svg(
        &buffer,
        &Theme::load("dusk", ColorDepth::True).unwrap(),
        text,
    );
    assert!(
        !picture.chars().any(|c| c.is_control() && c != '\n'),
        "{picture}"
    );
}

#[test]
fn hostile_texts_stay_in_their_pane() {
    for text in HOSTILE {
        for (width, height) in [(120, 36), (100, 60), (80, 24), (44, 14)] {
            check_hostile(text, width, height, (false, false));
            check_hostile(text, width, height, (true, true));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_texts_stay_in_their_pane(
        text in prop_oneof![
            any::<String>(),
            "(?s).{0,200}",
            proptest::collection::vec(proptest::sample::select(HOSTILE), 0..6).prop_map(|all| all.concat()),
        ],
        width in 1u16..140,
        height in 1u16..50,
        toggles in any::<(bool, bool)>(),
    ) {
        check_hostile(&text, width, height, toggles);
    }

    #[test]
    fn markdown_never_is_wider_than_asked(text in "(?s).{0,300}", columns in 8usize..100) {
        let theme = Theme::load("dusk", ColorDepth::True).unwrap();
        for line in crosstalk::ui::markdown::render(&text, columns, &theme) {
            prop_assert!(line.width() <= columns, "{line:?}");
        }
    }
}

#[test]
fn wide_characters_keep_columns_even() {
    let screen = shown(&app(), 120, 36);
    let column = |part: &str, word: &str| {
        let line = screen.lines().find(|line| line.contains(part)).unwrap();
        crosstalk::text::width(line.split_once(word).unwrap().0)
    };
    assert_eq!(column("家族", "telegram"), column("#deploys", "discord"));
    assert_eq!(column("家族", "││"), 43);
}

#[test]
fn markdown_is_drawn() {
    let theme = Theme::load("dusk", ColorDepth::True).unwrap();
    let check = |input: &str, expect: &[&str]| {
        let lines: Vec<String> = crosstalk::ui::markdown::render(input, 30, &theme)
            .iter()
            .map(|line| line.0.iter().map(|p| p.text.as_str()).collect::<String>())
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(lines, expect, "{input:?}");
    };
    check("one\ntwo", &["one", "two"]);
    check("one\n\ntwo", &["one", "", "two"]);
    check("# Head\ntext", &["Head", "", "text"]);
    check("## Sub", &["## Sub"]);
    check(
        "- a\n- b\n  - c\n\nend",
        &["• a", "• b", "  • c", "", "end"],
    );
    check("9. a\n10. b", &["9. a", "10. b"]);
    check("- [ ] a\n- [x] b", &["• ☐ a", "• ☑ b"]);
    check("> a\n> b\n\nc", &["│ a", "│ b", "", "c"]);
    check(
        "```rust\nlet x;\n\n\tx\n```",
        &["▎ rust", "▎ let x;", "▎", "▎     x"],
    );
    check("a `b` **c** *d* ~~e~~", &["a b c d e"]);
    check("[here](http://x/y)", &["here (http://x/y)"]);
    check("<http://x/y>", &["http://x/y"]);
    check("![alt](p.png)", &["[image] alt (p.png)"]);
    check("a <b>x</b>", &["a <b>x</b>"]);
    check("<!-- note -->", &["<!-- note -->"]);
    check("&#27;[31m", &["␛[31m"]);
    check("a\n\n---\n\nb", &["a", "", &"─".repeat(30), "", "b"]);
    check(
        "| a | bb |\n|--:|:-:|\n| 1 | 2 |",
        &["a  bb", "─  ──", "1  2"],
    );
    check(
        "| name | what it is |\n|---|---|\n| x | words that need more room than there is |",
        &[
            "name  what it is",
            "────  ────────────────────────",
            "x     words that need more",
            "      room than there is",
        ],
    );
    check(
        &format!(
            "|{}\n|{}\n|{}",
            "h|".repeat(12),
            "-|".repeat(12),
            "value|".repeat(12)
        ),
        &["h: value"; 12],
    );
}

#[test]
fn secrets_are_masked_until_shown() {
    let secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789";
    let mut app = app();
    app.transcript.items = messages(&[
        said("user", 9, json!(format!("the key is {secret}")), json!({})),
        said(
            "assistant",
            8,
            json!([{"type": "toolCall", "id": "a", "name": "exec", "arguments": {"command": format!("curl -H 'x: {secret}'")}}]),
            json!({}),
        ),
    ]);
    assert!(!shown(&app, 120, 36).contains(secret));
    app.transcript.raw = true;
    assert!(!shown(&app, 120, 36).contains(secret));
    app.transcript.raw = false;
    app.transcript.show_secrets = true;
    assert_eq!(shown(&app, 120, 36).matches(secret).count(), 2);
}

#[test]
fn h_20_results_are_counted_not_dropped() {
    let mut app = app();
    app.transcript.show_tools = true;
    app.transcript.scroll = Scroll::At {
        position: 300,
        line: 0,
    };
    let screen = shown(&app, 120, 36);
    assert!(screen.contains("… 18 more lines"), "{screen}");
    app.transcript.toggled.insert(300);
    let screen = shown(&app, 120, 60);
    assert_eq!(screen.matches("▎ line").count(), 30, "{screen}");
    assert!(!screen.contains("more lines"));
}

#[test]
fn the_reader_keeps_the_place() {
    let mut app = app();
    app.transcript.scroll = Scroll::At {
        position: 600,
        line: 0,
    };
    let place = |app: &App| {
        let mut buffer = buffer(120, 20);
        let (view, _) = paint(app, &mut cache(), &mut buffer);
        (
            text(&buffer).lines().nth(2).unwrap().to_owned(),
            view.transcript,
        )
    };
    let (first, view) = place(&app);
    assert_eq!(view.top, Some((600, 0)));
    assert!(first.contains("triage ⇄ ops"), "{first}");
    // More at the end moves nothing.
    app.transcript.streams = vec![stream()];
    assert_eq!(place(&app).0, first);
    // Less at the start moves nothing.
    app.transcript.items.remove(0);
    assert_eq!(place(&app).0, first);
    // A line before the message is the last of the one before it; beyond the end is the end.
    app.transcript.scroll = Scroll::At {
        position: 600,
        line: -1,
    };
    assert_eq!(place(&app).1.top.map(|top| top.0), Some(500));
    app.transcript.scroll = Scroll::At {
        position: 5000,
        line: 99,
    };
    let (_, view) = place(&app);
    assert!(view.at_bottom && !view.at_top);
    app.transcript.scroll = Scroll::At {
        position: 100,
        line: -99,
    };
    let (_, view) = place(&app);
    assert!(view.at_top && !view.at_bottom);
}

#[test]
fn a_revealed_cursor_is_on_the_screen() {
    let mut app = app();
    app.transcript.reveal = true;
    for from in [0, 100, 200, 600, 700, 5000] {
        for to in [0, 100, 200, 500, 600, 700, 800, 5000] {
            app.transcript.scroll = Scroll::At {
                position: from,
                line: 0,
            };
            app.transcript.cursor = Some(to);
            let mut buffer = buffer(120, 24);
            let (view, _) = paint(&app, &mut cache(), &mut buffer);
            let seen = view.transcript.first <= Some(to) && Some(to) <= view.transcript.last;
            assert!(seen, "from {from} to {to}: {:?}", view.transcript);
        }
    }
}

#[test]
fn themes_hold_at_every_depth() {
    for name in Theme::names() {
        for depth in [
            ColorDepth::None,
            ColorDepth::Ansi16,
            ColorDepth::Ansi256,
            ColorDepth::True,
        ] {
            let theme = Theme::load(name, depth).unwrap();
            for role in Role::ALL {
                let style = theme.style(*role);
                if depth == ColorDepth::None {
                    assert_eq!((style.fg, style.bg), (None, None), "{name} {role:?}");
                }
            }
            // What is selected can be told without colours.
            if depth == ColorDepth::None {
                assert_ne!(theme.style(Role::Selected), theme.style(Role::Text));
            }
        }
    }
    assert!(
        Theme::load("nope", ColorDepth::True)
            .unwrap_err()
            .to_string()
            .contains("dusk")
    );
    let bad = [
        ("paper = '#000000'\nink = '#fffff'\n[styles]", "ink"),
        (
            "paper = '#000000'\nink = '#ffffff'\n[styles]\nnone = {}",
            "\"none\"",
        ),
        (
            "paper = '#000000'\nink = '#ffffff'\n[styles]\ntext = { fg = 'x' }",
            "\"x\"",
        ),
    ];
    for (file, word) in bad {
        let error = Theme::parse("mine", file, ColorDepth::True)
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn no_color_and_dumb_terminals_get_no_colors() {
    let check = |vars: &[(&str, &str)], expect| {
        let found = ColorDepth::detect(|name| {
            let var = vars.iter().find(|(n, _)| *n == name)?;
            Some(var.1.to_owned())
        });
        assert_eq!(found, expect, "{vars:?}");
    };
    check(
        &[("NO_COLOR", "1"), ("COLORTERM", "truecolor")],
        ColorDepth::None,
    );
    check(
        &[("NO_COLOR", ""), ("COLORTERM", "truecolor")],
        ColorDepth::True,
    );
    check(&[("TERM", "dumb")], ColorDepth::None);
    check(&[("TERM", "xterm-256color")], ColorDepth::Ansi256);
    check(&[("TERM", "xterm")], ColorDepth::Ansi16);
    for (name, app) in scenes() {
        let mut buffer = buffer(120, 36);
        paint(
            &app,
            &mut cache_of("dusk", ColorDepth::None, false),
            &mut buffer,
        );
        for cell in &buffer.content {
            let reset = ratatui::style::Color::Reset;
            assert_eq!((cell.fg, cell.bg), (reset, reset), "{name}");
        }
    }
}

#[test]
fn ascii_leaves_no_symbol_of_ours() {
    for (name, mut app) in scenes() {
        app.sessions.replace(&rows()[..4], NOW);
        app.transcript.items.truncate(2);
        let mut buffer = buffer(120, 36);
        paint(
            &app,
            &mut cache_of("dusk", ColorDepth::True, true),
            &mut buffer,
        );
        let left: Vec<&str> = buffer
            .content
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .filter(|symbol| !symbol.is_ascii())
            .collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[test]
fn a_picture_shows_the_cells() {
    let mut buffer = buffer(12, 2);
    let style = ratatui::style::Style::new();
    let bold = style.bold().fg(ratatui::style::Color::Rgb(1, 2, 3));
    buffer.set_string(0, 0, "a<b>&\"c", style);
    buffer.set_string(0, 1, "家 x", bold.reversed());
    let theme = Theme::load("dusk", ColorDepth::True).unwrap();
    let picture = svg(&buffer, &theme, "a & b");
    for part in [
        "a&lt;b&gt;&amp;&quot;c",
        ">家</text>",
        ">a &amp; b</text>",
        "font-weight=\"bold\"",
        "fill=\"#010203\"",
    ] {
        assert!(picture.contains(part), "{part} in {picture}");
    }
    assert!(!picture.contains("<script"));
    assert_eq!(picture, svg(&buffer, &theme, "a & b"));
    assert_eq!(picture.matches("<svg").count(), 1);
    assert!(picture.len() < 3_000, "{}", picture.len());
}

#[test]
fn screens() {
    let pictured = [
        "browse", "tools", "compose", "reading", "nothing", "spawn", "help", "details", "menu",
        "palette", "rename",
    ];
    for (width, height) in [(120, 36), (80, 24), (44, 14)] {
        for (name, app) in scenes() {
            if pictured.contains(&name) {
                insta::assert_snapshot!(format!("{name}-{width}"), shown(&app, width, height));
            }
        }
    }
}

/// The last line.
fn footer(screen: &str) -> &str {
    screen.lines().last().unwrap_or_default()
}

#[test]
fn a_toast_leaves_the_keys_where_they_are() {
    for (width, height) in [(120, 36), (80, 24), (44, 14)] {
        for focus in [Focus::List, Focus::Transcript, Focus::Compose] {
            let mut app = app();
            app.focus = focus;
            app.compose.draft = Draft::new(&"typed".into());
            let before = shown(&app, width, height);
            app.toast = Some(Toast {
                text: Clean::fixed(
                    "the gateway answered something that takes a good many words to say, in full, to its last word",
                ),
                tone: Tone::Bad,
                until: NOW + 1000,
            });
            let with = shown(&app, width, height);
            assert_eq!(footer(&with), footer(&before));
            assert!(with.contains("the gateway"), "{with}");
            assert!(with.contains("last word"), "{with}");
            assert_eq!(with.contains("typed"), before.contains("typed"), "{with}");
        }
    }
}

#[test]
fn a_narrow_footer_still_says_how_to_get_help_and_out() {
    for width in [40, 44, 80, 120] {
        for focus in [Focus::List, Focus::Transcript] {
            let mut app = app();
            app.focus = focus;
            let screen = shown(&app, width, 20);
            for keys in ["? help", "q quit", "j down"] {
                assert!(footer(&screen).contains(keys), "{width}: {screen}");
            }
        }
        let mut app = app();
        app.spawn = Some(spawn_form());
        app.layers = vec![Layer::Spawn];
        for height in [14, 24] {
            let screen = shown(&app, width, height);
            assert!(screen.contains("Esc cancel  Ctrl+S spawn"), "{screen}");
        }
    }
}

#[test]
fn a_narrow_header_tells_liveness_and_counts() {
    for width in [40, 44, 50, 60, 80, 120] {
        let screen = shown(&app(), width, 20);
        let header = screen.lines().next().unwrap();
        let short = header.contains("● ") && header.contains("2▶ 1… 10");
        let long = ["● live", "2 running", "1 queued", "10 sessions"];
        assert!(
            short || long.iter().all(|part| header.contains(part)),
            "{header}"
        );
    }
    let mut app = app();
    app.header.link = Link::Offline {
        since: NOW,
        reason: Some("connection refused".into()),
    };
    let screen = shown(&app, 44, 20);
    let header = screen.lines().next().unwrap();
    assert!(
        header.contains("○ offline") && header.contains("2▶ 1… 10"),
        "{header}"
    );
}

#[test]
fn menus_are_not_cut_where_there_is_room() {
    let mut menu = a_menu(false);
    menu.note.clear();
    let label = "a choice that takes a good part of the screen to say what it does";
    let detail = "and why it may not be chosen";
    menu.items[2].label = Clean::fixed(label);
    menu.items[2].detail = Clean::fixed(detail);
    let mut app = app();
    app.layers = vec![Layer::Menu(menu)];
    let screen = shown(&app, 120, 36);
    assert!(
        screen.contains(label) && screen.contains(detail),
        "{screen}"
    );
}

#[test]
fn options_that_do_not_fit_are_marked() {
    let mut app = app();
    let filters = &mut app.sessions.filters;
    filters.archived_too = true;
    filters.live_only = true;
    filters.active_minutes = Some(240);
    app.sessions.rebuild(NOW);
    let screen = shown(&app, 44, 20);
    let row = screen
        .lines()
        .find(|line| line.contains("live only"))
        .unwrap();
    assert!(row.contains("active 4 h") && row.contains(" …"), "{row}");
    let all = shown(&app, 89, 20);
    let row = all.lines().find(|line| line.contains("live only")).unwrap();
    assert!(row.contains("tree") && !row.contains('…'), "{row}");
}

#[test]
fn an_archived_session_is_told_by_its_mark() {
    let mut app = app();
    app.sessions.filters.archived_too = true;
    let mut all = rows();
    // One that failed, too.
    all[3].archived_at = Some(NOW);
    app.sessions.replace(&all, NOW);
    let screen = shown(&app, 120, 36);
    let row = screen
        .lines()
        .find(|line| line.contains("read the de"))
        .unwrap();
    assert!(row.contains('▫'), "{row}");
}

#[test]
fn a_failed_send_says_all_of_its_reason() {
    let mut app = app();
    app.focus = Focus::Compose;
    app.compose.draft = Draft::new(&"hello".into());
    app.compose.failure = Some(Clean::fixed(
        "not sent: the policy of this session denies messages that come from a channel of this kind, by its second rule",
    ));
    let screen = shown(&app, 80, 24);
    assert!(
        screen.contains("hello") && screen.contains("second rule"),
        "{screen}"
    );
    // Refused before: what holds now is said instead.
    app.compose.failure = None;
    app.compose.ledger = vec![Sent {
        entry: LedgerEntry {
            send_id: "s".into(),
            target: "agent:ops:main".into(),
            requester: None,
            text: "x".into(),
            wait_s: 30,
            state: SendState::Refused,
            reply: None,
            error: Some("denied by a rule".into()),
            sent_at: NOW - 3000,
            changed_at: NOW - 3000,
        },
        queued_behind: None,
        wait_until: None,
    }];
    assert!(shown(&app, 80, 24).contains("refused: denied by a rule"));
    let allow = crosstalk::model::session::SendPolicy::Allow;
    app.transcript.policy = Some((allow, Clean::fixed("default")));
    assert!(!shown(&app, 80, 24).contains("refused"));
}

#[test]
fn a_box_that_takes_nothing_says_why() {
    let mut app = app();
    app.observe = true;
    let screen = shown(&app, 120, 36);
    assert_eq!(
        screen.matches("observing: nothing can be sent").count(),
        1,
        "{screen}"
    );
    assert!(!footer(&screen).contains("compose") && !footer(&screen).contains("spawn"));
}

#[test]
fn the_spawn_dialog_says_what_a_blank_limit_is_and_how_a_file_goes() {
    let mut app = app();
    let mut form = spawn_form();
    form.run_limit = Draft::line(&"".into());
    form.field = Field::Attach;
    app.spawn = Some(form);
    app.layers = vec![Layer::Spawn];
    let screen = shown(&app, 120, 36);
    assert!(screen.contains("0 s  none"), "{screen}");
    let row = screen
        .lines()
        .find(|line| line.contains("deploy.log  "))
        .unwrap();
    assert!(row.contains("Backspace takes it out"), "{row}");
}

#[test]
fn typed_text_keeps_every_character_and_its_cursor() {
    let mut app = app();
    app.focus = Focus::Compose;
    let cursor = |app: &App| {
        let mut buffer = buffer(44, 20);
        let (_, cursor) = paint(app, &mut cache(), &mut buffer);
        (cursor.unwrap(), text(&buffer))
    };
    let mut check = |typed: &str, rows: &[&str], column: u16| {
        app.compose.draft = Draft::new(&typed.into());
        let (at, screen) = cursor(&app);
        let lines: Vec<&str> = screen.lines().collect();
        let top = lines
            .iter()
            .position(|line| line.starts_with("╭ Send"))
            .unwrap()
            + 1;
        for (offset, row) in rows.iter().enumerate() {
            assert_eq!(
                lines[top + offset],
                format!("│ {row:<40} │"),
                "{typed:?}\n{screen}"
            );
        }
        let last = u16::try_from(top + rows.len() - 1).unwrap();
        assert_eq!((at.x, at.y), (2 + column, last), "{typed:?}\n{screen}");
    };
    check("", &[""], 0);
    check("hi ", &["hi"], 3);
    check("one\ntwo", &["one", "two"], 3);
    check(
        "the word that does not fit goes to the next row",
        &["the word that does not fit goes to the", "next row"],
        8,
    );
    check(&"x".repeat(45), &[&"x".repeat(40), "xxxxx"], 5);
    check(&"x".repeat(40), &[&"x".repeat(40), ""], 0);
}
