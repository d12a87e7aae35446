//! The browser as state: keys and events in, state and effects out.

use crosstalk::app::action::Action;
use crosstalk::app::effect::{Effect, Quit};
use crosstalk::app::event::{Event, Ticket, What};
use crosstalk::app::geometry::{TranscriptView, Viewport};
use crosstalk::app::help;
use crosstalk::app::key::KeyPress;
use crosstalk::app::keymap::{Context, Found, Keymap};
use crosstalk::app::menu::Pick;
use crosstalk::app::sessions::{Sort, identity};
use crosstalk::app::transcript::{Load, Scroll};
use crosstalk::app::update::update;
use crosstalk::app::{App, Focus, Layer, Setup};
use crosstalk::model::event::{self as backend, SendState};
use crosstalk::model::key::{Kind, SessionKey};
use crosstalk::model::message::RawLine;
use crosstalk::model::run::{Outcome, RunOrigin};
use crosstalk::model::session::Row;
use crosstalk::protocol::methods::{
    Accepted, Code, Failure, Info, Lines, Reply, Request, Rows, Waited,
};
use crosstalk::text::{Clean, Untrusted};
use serde_json::json;

mod order;

const T0: i64 = 1_800_000_000_000;

/// A browser with a clock of its own.
struct Screen {
    app: App,
    now: i64,
    out: Vec<Effect>,
}

impl Screen {
    fn new() -> Self {
        let mut screen = Self {
            app: App::new(Setup {
                source: "test".into(),
                now_ms: T0,
                tree: Some(false),
                ..Setup::default()
            }),
            now: T0,
            out: Vec::new(),
        };
        screen.happen(What::Started);
        screen
    }

    /// With sessions in the list.
    fn with(rows: Vec<Row>) -> Self {
        let mut screen = Self::new();
        let total = rows.len();
        screen.answer(
            |request| matches!(request, Request::List(_)),
            Reply::Rows(Rows {
                rows,
                total,
                all: total,
                ..Rows::default()
            }),
        );
        screen
    }

    fn happen(&mut self, what: What) -> Vec<Effect> {
        let effects = update(
            &mut self.app,
            Event {
                now_ms: self.now,
                what,
            },
        );
        self.out.extend(effects.clone());
        effects
    }

    /// Keys as in the key file, with spaces between; `"…"` types text.
    fn keys(&mut self, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in keys.split(' ').filter(|key| !key.is_empty()) {
            effects.extend(self.happen(What::Key(KeyPress::parse(key).unwrap())));
        }
        effects
    }

    fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            let code = crosstalk::app::key::Code::Char(c);
            self.happen(What::Key(KeyPress::plain(code)));
        }
    }

    fn after(&mut self, ms: i64) -> Vec<Effect> {
        self.now += ms;
        self.happen(What::Tick)
    }

    fn event(&mut self, key: &str, run: Option<&str>, what: backend::What) -> Vec<Effect> {
        let event = backend::Event {
            seq: 1,
            at: self.now,
            cursor: "1".into(),
            session_key: Some(key.into()),
            run_id: run.map(str::to_owned),
            caused_by_run: None,
            root_run: None,
            inferred: false,
            what,
        };
        self.happen(What::Backend(Box::new(event)))
    }

    /// The newest call that fits and was neither answered nor given up.
    fn ticket(&self, fits: impl Fn(&Request) -> bool) -> Option<(Ticket, Request)> {
        self.out.iter().rev().find_map(|effect| match effect {
            Effect::Call { ticket, call } if fits(&call.request) => {
                Some((*ticket, call.request.clone()))
            }
            _ => None,
        })
    }

    fn answer(&mut self, fits: impl Fn(&Request) -> bool, reply: Reply) -> Vec<Effect> {
        let (ticket, _) = self.ticket(fits).expect("such a call was made");
        self.reply(ticket, Ok(reply))
    }

    fn reply(&mut self, ticket: Ticket, result: Result<Reply, Failure>) -> Vec<Effect> {
        self.happen(What::Replied {
            ticket,
            result: result.map(Box::new),
        })
    }

    fn selected(&self) -> &str {
        self.app
            .sessions
            .selected
            .as_ref()
            .map_or("", SessionKey::as_str)
    }

    fn order(&self) -> Vec<&str> {
        self.app.sessions.shown().map(SessionKey::as_str).collect()
    }

    /// Opens the selected session with a transcript of messages.
    fn open(&mut self, texts: &[&str]) {
        self.after(100);
        let lines = texts
            .iter()
            .enumerate()
            .map(|(at, text)| line(at as u64 * 100, text))
            .collect();
        self.answer(
            |request| matches!(request, Request::History(_)),
            Reply::Lines(page(lines, 0, texts.len() as u64 * 100, true)),
        );
    }
}

fn is_history(request: &Request) -> bool {
    matches!(request, Request::History(_))
}

fn page(lines: Vec<RawLine>, start: u64, end: u64, at_start: bool) -> Lines {
    Lines {
        key: "k".into(),
        exists: true,
        lines,
        start,
        end,
        at_start,
    }
}

fn line(position: u64, text: &str) -> RawLine {
    said(position, json!({ "role": "user", "content": text }))
}

fn said(position: u64, message: serde_json::Value) -> RawLine {
    RawLine {
        position,
        bytes: 99,
        line: json!({ "type": "message", "id": format!("m{position}"), "message": message }),
        damage: None,
    }
}

fn row(key: &str, updated_ago_s: i64) -> Row {
    serde_json::from_value(json!({
        "key": key,
        "kind": SessionKey::foreign(key).kind(&crosstalk::model::key::KindFacts {
            main_key: "main", chat_type: None, set_origin: None,
        }).as_str(),
        "channel": "webchat",
        "updatedAt": T0 - updated_ago_s * 1000,
        "sessionId": "s",
    }))
    .unwrap()
}

fn child(key: &str, parent: &str, updated_ago_s: i64) -> Row {
    Row {
        spawned_by: Some(parent.into()),
        ..row(key, updated_ago_s)
    }
}

fn three() -> Vec<Row> {
    vec![
        row("agent:a:main", 10),
        row("agent:b:main", 20),
        row("agent:c:main", 30),
    ]
}

#[test]
fn first_it_asks_what_it_shows() {
    let screen = Screen::new();
    for fits in [
        (|r| matches!(r, Request::Info {})) as fn(&Request) -> bool,
        |r| matches!(r, Request::List(list) if list.archived_too && list.limit.is_none()),
        |r| matches!(r, Request::Runs {}),
    ] {
        assert!(screen.ticket(fits).is_some());
    }
}

mod keys {
    use super::*;

    #[test]
    fn the_built_in_file_can_be_read() {
        let keymap = Keymap::builtin();
        assert!(!keymap.bindings(Context::List).is_empty());
    }

    #[test]
    fn a_key_bound_twice_names_both() {
        let check = |own: &str, expect: &[&str]| {
            let error = Keymap::with(own).unwrap_err().to_string();
            for word in expect {
                assert!(error.contains(word), "{error} lacks {word}");
            }
        };
        check(
            "[list]\nfilter = [\"h\"]",
            &["[list]", "h", "parent", "filter"],
        );
        // The beginning of a sequence counts as well.
        check("[general]\nspawn = [\"g\"]", &["g", "first", "spawn"]);
        check("[list]\nfly = [\"f\"]", &["fly", "no such action"]);
        check("[compose]\nsend = [\"x\"]", &["x", "typed"]);
        check("[list]\nfilter = [\"hyper+x\"]", &["hyper+x"]);
        check("[list", &["TOML"]);
    }

    #[test]
    fn an_own_file_gives_an_action_its_keys() {
        let keymap = Keymap::with("[list]\nfilter = [\"f\"]\nfold = []\n").unwrap();
        let find = |key: &str| keymap.find(&[Context::List], &[KeyPress::parse(key).unwrap()]);
        assert_eq!(find("f"), Found::Action(Action::Filter));
        assert_eq!(find("/"), Found::Nothing);
        assert_eq!(find("z"), Found::Nothing);
    }

    #[test]
    fn keys_that_terminals_lose_are_warned_of() {
        let keymap = Keymap::with("[list]\nsort = [\"ctrl+i\"]").unwrap();
        assert_eq!(keymap.warnings.len(), 1);
    }

    #[test]
    fn shift_is_the_character() {
        use crosstalk::app::key::Code;
        assert_eq!(
            KeyPress::new(Code::Char('g'), false, false, true),
            KeyPress::parse("G").unwrap()
        );
        assert_eq!(
            KeyPress::new(Code::Char('G'), false, false, true),
            KeyPress::parse("G").unwrap()
        );
        assert_eq!(
            KeyPress::new(Code::Char('P'), true, false, true),
            KeyPress::parse("ctrl+p").unwrap()
        );
        assert_eq!(
            KeyPress::parse("+").unwrap(),
            KeyPress::plain(Code::Char('+'))
        );
    }

    #[test]
    fn every_footer_key_does_what_it_says() {
        let mut screen = Screen::with(three());
        for keys in ["", "enter", "c"] {
            screen.keys(keys);
            let contexts = screen.app.contexts();
            let hints = crosstalk::app::help::footer(&screen.app);
            assert!(!hints.is_empty());
            for hint in hints {
                assert_eq!(
                    screen.app.keymap.key_of(contexts, hint.action),
                    Some(hint.keys)
                );
            }
        }
    }

    #[test]
    fn every_action_has_one_name() {
        for action in Action::ALL {
            assert_eq!(Action::parse(action.name()), Some(*action));
        }
    }
}

mod list {
    use super::*;

    #[test]
    fn the_cursor_stays_on_its_session_when_rows_move() {
        let mut screen = Screen::with(three());
        screen.keys("j");
        assert_eq!(screen.selected(), "agent:b:main");
        screen.event(
            "agent:c:main",
            None,
            backend::What::SessionChanged {
                row: Box::new(row("agent:c:main", 0)),
            },
        );
        assert_eq!(
            screen.order(),
            ["agent:c:main", "agent:a:main", "agent:b:main"]
        );
        assert_eq!(screen.selected(), "agent:b:main");
    }

    #[test]
    fn filters_count_and_say_what_they_hide() {
        let mut rows = three();
        rows.push(row("agent:a:cron:x", 7200));
        rows.push(Row {
            archived_at: Some(T0),
            ..row("agent:a:old", 5)
        });
        let mut screen = Screen::with(rows);
        assert_eq!(screen.app.sessions.counts(), (4, 5));
        screen.keys("K");
        assert_eq!(screen.app.sessions.filters.kind, Some(Kind::Main));
        assert_eq!(screen.app.sessions.counts(), (3, 5));
        assert_eq!(screen.app.sessions.kind_counts[&Some(Kind::Cron)], 1);
        screen.keys("A");
        assert_eq!(screen.app.sessions.filters.active_minutes, Some(5));
        assert_eq!(screen.app.sessions.kind_counts[&Some(Kind::Cron)], 0);
        let hidden: Vec<(usize, String)> = screen
            .app
            .sessions
            .hidden(screen.now)
            .into_iter()
            .map(|part| (part.count, part.why.into_string()))
            .collect();
        assert_eq!(hidden.iter().map(|h| h.0).collect::<Vec<_>>(), [1, 2, 1]);
        screen.keys("i");
        assert!(matches!(screen.app.layers.last(), Some(Layer::Hidden(_))));
    }

    #[test]
    fn the_fuzzy_filter_holds_at_once_and_esc_clears_it() {
        let mut screen = Screen::with(vec![
            row("agent:ops:main", 9),
            row("agent:research:main", 8),
        ]);
        screen.keys("/");
        screen.type_text("rsch");
        assert_eq!(screen.order(), ["agent:research:main"]);
        screen.keys("enter");
        assert_eq!(screen.order(), ["agent:research:main"]);
        assert_eq!(
            screen.app.transcript.key.as_ref().map(SessionKey::as_str),
            Some("agent:research:main")
        );
        screen.keys("esc");
        assert_eq!(screen.order().len(), 2);
    }

    #[test]
    fn the_tree_folds_and_keeps_what_matches_in_its_place() {
        let mut screen = Screen::with(vec![
            row("agent:a:main", 100),
            child("agent:a:subagent:1", "agent:a:main", 10),
            child("agent:a:subagent:2", "agent:a:main", 5),
            row("agent:b:main", 50),
        ]);
        screen.keys("T");
        assert_eq!(
            screen.order(),
            [
                "agent:a:main",
                "agent:a:subagent:2",
                "agent:a:subagent:1",
                "agent:b:main"
            ]
        );
        screen.keys("g g z a");
        assert_eq!(screen.order(), ["agent:a:main", "agent:b:main"]);
        assert_eq!(screen.app.sessions.lines[0].folded, 2);
        screen.keys("z a j h");
        assert_eq!(screen.selected(), "agent:a:main");
    }

    #[test]
    fn a_loop_of_parents_is_shown_once() {
        let mut screen = Screen::with(vec![
            child("agent:a:subagent:1", "agent:a:subagent:2", 1),
            child("agent:a:subagent:2", "agent:a:subagent:1", 2),
        ]);
        screen.keys("T");
        let mut order = screen.order();
        order.sort_unstable();
        assert_eq!(order, ["agent:a:subagent:1", "agent:a:subagent:2"]);
    }

    #[test]
    fn k_11_the_operators_main_is_global() {
        assert_eq!(identity(&"main".into()), SessionKey::global());
    }

    #[test]
    fn opening_waits_for_a_pause_and_late_answers_are_dropped() {
        let mut screen = Screen::with(three());
        let first = screen.ticket(is_history).unwrap().0;
        let calls = |effects: &[Effect]| {
            effects
                .iter()
                .filter(|e| matches!(e, Effect::Call { .. }))
                .count()
        };
        assert_eq!(calls(&screen.keys("j j")), 0);
        assert!(screen.app.next_wake().unwrap() <= screen.now + 100);
        screen.after(100);
        assert_eq!(
            screen.app.transcript.key.as_ref().map(SessionKey::as_str),
            Some("agent:c:main")
        );
        assert!(screen.out.contains(&Effect::Cancel { ticket: first }));
        screen.reply(
            first,
            Ok(Reply::Lines(page(vec![line(0, "of a")], 0, 100, true))),
        );
        assert!(screen.app.transcript.items.is_empty());
        assert_eq!(screen.app.transcript.load, Load::Loading);
    }

    proptest::proptest! {
        /// Whatever happens to the list, the cursor is where the person put it as long as that session is there.
        #[test]
        fn the_cursor_never_wanders(changes in proptest::collection::vec((0usize..12, 0i64..10_000, 0u8..8), 1..60)) {
            let mut screen = Screen::with((0..12).map(|n| row(&format!("agent:a:s{n}"), n)).collect());
            screen.keys("j j j");
            let chosen = screen.selected().to_owned();
            for (which, age, what) in changes {
                let key = format!("agent:a:s{which}");
                match what {
                    0..=4 => {
                        screen.event(&key, None, backend::What::SessionChanged { row: Box::new(row(&key, age)) });
                    }
                    5 => { screen.keys("o"); }
                    6 => { screen.keys("T"); }
                    _ if key != chosen => {
                        screen.event(&key, None, backend::What::SessionDeleted { row: Box::new(row(&key, age)) });
                    }
                    _ => {}
                }
                proptest::prop_assert_eq!(screen.selected(), chosen.as_str());
                let at = screen.app.sessions.selected_line();
                proptest::prop_assert!(at.is_some());
                proptest::prop_assert!(at >= Some(screen.app.sessions.top));
            }
        }
    }

    #[test]
    fn sorting_goes_round() {
        let mut screen = Screen::with(three());
        for sort in Sort::ALL.iter().cycle().skip(1).take(5) {
            screen.keys("o");
            assert_eq!(screen.app.sessions.sort, *sort);
        }
    }
}

mod transcript {
    use super::*;

    fn appended(screen: &mut Screen, raw: RawLine) {
        let position = raw.position;
        screen.event(
            "agent:a:main",
            Some("r1"),
            backend::What::MessageAppended {
                message: Box::new(raw),
                position,
            },
        );
    }

    fn opened() -> Screen {
        let mut screen = Screen::with(three());
        screen.open(&["one", "two", "three"]);
        screen
    }

    #[test]
    fn it_grows_once_and_in_order() {
        let mut screen = opened();
        appended(&mut screen, line(400, "five"));
        appended(&mut screen, line(300, "four"));
        appended(&mut screen, line(300, "four"));
        let positions: Vec<u64> = screen
            .app
            .transcript
            .items
            .iter()
            .map(|m| m.position)
            .collect();
        assert_eq!(positions, [0, 100, 200, 300, 400]);
        assert_eq!(screen.app.transcript.cursor, Some(400));
    }

    #[test]
    fn a_reader_elsewhere_keeps_the_place_and_hears_how_much_is_new() {
        let mut screen = opened();
        screen.keys("enter k");
        assert_eq!(screen.app.transcript.cursor, Some(100));
        appended(&mut screen, line(300, "four"));
        assert_eq!(screen.app.transcript.cursor, Some(100));
        assert_eq!(screen.app.transcript.new_below, 1);
        assert!(!screen.app.transcript.is_following());
        screen.keys("G");
        assert!(screen.app.transcript.is_following());
        assert_eq!(screen.app.transcript.new_below, 0);
        assert_eq!(screen.app.transcript.cursor, Some(300));
    }

    #[test]
    fn what_came_before_the_page_is_not_lost() {
        let mut screen = Screen::with(three());
        appended(&mut screen, line(500, "newest"));
        screen.answer(
            is_history,
            Reply::Lines(page(vec![line(400, "old")], 400, 500, true)),
        );
        let positions: Vec<u64> = screen
            .app
            .transcript
            .items
            .iter()
            .map(|m| m.position)
            .collect();
        assert_eq!(positions, [400, 500]);
    }

    #[test]
    fn older_pages_come_when_the_reader_nears_the_top_and_move_nothing() {
        let mut screen = Screen::with(three());
        let lines = (10..40).map(|n| line(n * 100, "x")).collect();
        screen.answer(is_history, Reply::Lines(page(lines, 1000, 4000, false)));
        let view = |first: u64| {
            What::Drawn(Box::new(Viewport {
                transcript: TranscriptView {
                    top: Some((first, 1)),
                    first: Some(first),
                    last: Some(first + 300),
                    rows: 10,
                    ..TranscriptView::default()
                },
                ..Viewport::default()
            }))
        };
        screen.keys("enter k");
        let effects = screen.happen(view(3500));
        assert!(effects.is_empty(), "far from the top nothing is asked for");
        let effects = screen.happen(view(1200));
        assert_eq!(effects.len(), 1);
        assert!(screen.happen(view(1100)).is_empty(), "asked once");
        screen.answer(
            is_history,
            Reply::Lines(page(vec![line(0, "first")], 0, 1000, true)),
        );
        assert_eq!(
            screen.app.transcript.scroll,
            Scroll::At {
                position: 1100,
                line: 1
            }
        );
        assert_eq!(screen.app.transcript.items[0].position, 0);
        assert!(screen.app.transcript.at_start);
    }

    #[test]
    fn streaming_grows_in_place_until_the_message_is_there() {
        let mut screen = opened();
        let delta = |text: &str| backend::What::RunDelta {
            text: Some(text.into()),
            delta: None,
            thinking: None,
        };
        screen.event(
            "agent:a:main",
            Some("r1"),
            backend::What::RunStarted {
                origin: RunOrigin::Operator,
            },
        );
        screen.event("agent:a:main", Some("r1"), delta("Yes"));
        screen.event("agent:b:main", Some("r9"), delta("elsewhere"));
        screen.event("agent:a:main", Some("r1"), delta("Yes, it is"));
        assert_eq!(screen.app.transcript.streams.len(), 1);
        assert_eq!(
            screen.app.transcript.streams[0].text,
            Untrusted::new("Yes, it is")
        );
        appended(
            &mut screen,
            said(
                300,
                json!({ "role": "assistant", "content": [{ "type": "text", "text": "Yes, it is" }], "runId": "r1" }),
            ),
        );
        assert!(screen.app.transcript.streams[0].text.is_empty());
        screen.event(
            "agent:a:main",
            Some("r1"),
            backend::What::RunEnded {
                origin: RunOrigin::Operator,
                outcome: Outcome::Aborted,
                error: Some("stopped by hand".into()),
                usage: None,
            },
        );
        assert!(screen.app.transcript.streams.is_empty());
        let ending = &screen.app.transcript.endings[0];
        assert_eq!(
            (ending.outcome, ending.after),
            (Outcome::Aborted, Some(300))
        );
    }

    #[test]
    fn tool_results_are_hidden_at_first_and_opened_with_their_call() {
        let mut screen = opened();
        appended(
            &mut screen,
            said(
                300,
                json!({ "role": "assistant", "content": [{ "type": "toolCall", "id": "c", "name": "x", "arguments": {} }] }),
            ),
        );
        appended(
            &mut screen,
            said(
                400,
                json!({ "role": "toolResult", "toolCallId": "c", "content": "ok" }),
            ),
        );
        let shown = |screen: &Screen| {
            screen
                .app
                .transcript
                .shown()
                .map(|m| m.position)
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&screen), [0, 100, 200, 300]);
        assert_eq!(screen.app.transcript.cursor, Some(300));
        screen.keys("enter enter");
        assert_eq!(shown(&screen), [0, 100, 200, 300, 400]);
        screen.keys("enter t");
        assert_eq!(shown(&screen), [0, 100, 200, 300, 400]);
        screen.keys("t");
        assert_eq!(shown(&screen), [0, 100, 200, 300]);
    }

    #[test]
    fn the_wire_leads_to_the_peer_and_back() {
        let mut screen = opened();
        appended(
            &mut screen,
            said(
                300,
                json!({
                    "role": "user", "content": "is it green?",
                    "provenance": { "kind": "inter_session", "sourceSessionKey": "agent:b:main" },
                }),
            ),
        );
        screen.keys("enter w");
        assert_eq!(screen.selected(), "agent:b:main");
        let call = json!({ "type": "toolCall", "id": "c", "name": "sessions_send",
            "arguments": { "sessionKey": "agent:a:main", "message": "is it green?" } });
        let lines = vec![
            said(0, json!({ "role": "assistant", "content": [call] })),
            line(100, "later"),
        ];
        screen.answer(is_history, Reply::Lines(page(lines, 0, 200, true)));
        assert_eq!(screen.app.transcript.cursor, Some(0));
        screen.keys("backspace");
        assert_eq!(screen.selected(), "agent:a:main");
    }

    #[test]
    fn searching_here_goes_through_the_hits() {
        let mut screen = opened();
        screen.keys("enter /");
        screen.type_text("o");
        screen.keys("enter");
        assert_eq!(
            screen.app.transcript.search.as_ref().unwrap().hits,
            [0, 100]
        );
        assert_eq!(screen.app.transcript.cursor, Some(100));
        screen.keys("N");
        assert_eq!(screen.app.transcript.cursor, Some(0));
        screen.keys("n");
        assert_eq!(screen.app.transcript.cursor, Some(100));
    }

    #[test]
    fn a_run_that_is_gone_writes_no_more() {
        let run = |id: &str| {
            serde_json::from_value(json!({
                "runId": id, "sessionKey": "agent:a:main", "origin": "operator", "lane": "main",
                "state": "started", "message": "x", "messageId": "m", "acceptedAt": T0,
            }))
        };
        let mut screen = opened();
        for id in ["r1", "r2"] {
            let origin = RunOrigin::Operator;
            screen.event(
                "agent:a:main",
                Some(id),
                backend::What::RunStarted { origin },
            );
        }
        let written = |screen: &Screen| -> Vec<String> {
            let streams = &screen.app.transcript.streams;
            streams.iter().map(|stream| stream.run_id.clone()).collect()
        };
        screen.event("", None, backend::What::Resync {});
        assert_eq!(written(&screen), ["r1", "r2"]);
        let runs = vec![run("r2").unwrap()];
        screen.answer(|r| matches!(r, Request::Runs {}), Reply::Runs { runs });
        assert_eq!(written(&screen), ["r2"]);
    }

    #[test]
    fn json_masks_secrets_until_they_are_shown() {
        let secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789";
        let mut screen = opened();
        appended(&mut screen, line(300, &format!("\"{secret}\"")));
        let mut json = |keys: &str| {
            screen.keys(keys);
            let lines = vec![line(300, &format!("\"{secret}\""))];
            screen.answer(is_history, Reply::Lines(page(lines, 300, 400, false)));
            let Some(Layer::Json(pager)) = screen.app.layer() else {
                panic!()
            };
            let text = format!("{:?}", pager.lines);
            screen.keys("esc");
            text.contains(secret)
        };
        assert!(!json("enter J"));
        assert!(json("S J"));
    }

    #[test]
    fn a_resync_reads_list_and_transcript_again() {
        let mut screen = opened();
        let effects = screen.event("", None, backend::What::Resync {});
        let calls: Vec<_> = effects
            .iter()
            .filter_map(|e| match e {
                Effect::Call { call, .. } => Some(&call.request),
                _ => None,
            })
            .collect();
        assert!(calls.iter().any(|r| matches!(r, Request::List(_))));
        assert!(calls.iter().any(|r| is_history(r)));
        // The same page again changes nothing.
        let lines = vec![line(0, "one"), line(100, "two"), line(200, "three")];
        screen.answer(is_history, Reply::Lines(page(lines, 0, 300, true)));
        assert_eq!(screen.app.transcript.items.len(), 3);
    }
}

mod compose {
    use super::*;

    fn is_send(request: &Request) -> bool {
        matches!(request, Request::Send { .. })
    }

    fn composing() -> Screen {
        let mut screen = Screen::with(three());
        screen.open(&["one"]);
        screen.keys("c");
        assert_eq!(screen.app.focus, Focus::Compose);
        screen
    }

    fn text(screen: &Screen) -> String {
        screen.app.compose.text().into_raw()
    }

    fn sent(screen: &Screen) -> (Ticket, String) {
        match screen.ticket(is_send).unwrap() {
            (ticket, Request::Send { run_id, .. }) => (ticket, run_id),
            _ => unreachable!(),
        }
    }

    #[test]
    fn unknown_commands_are_not_sent() {
        let check = |typed: &str, sent: Option<&str>| {
            let mut screen = composing();
            screen.app.compose.draft.set(&typed.into());
            screen.keys("enter");
            let message = screen.ticket(is_send).map(|(_, request)| match request {
                Request::Send { message, .. } => message.into_raw(),
                _ => unreachable!(),
            });
            assert_eq!(message.as_deref(), sent, "{typed}");
            if sent.is_none() {
                assert_eq!(text(&screen), typed, "kept");
                let why = screen.app.compose.failure.as_ref().unwrap().as_str();
                assert!(why.contains("start with a space"), "{why}");
            }
        };
        check("/bogus", None);
        check("/sned off", None);
        check("/tmp\nis full", None);
        check("/etc/hosts is odd", Some("/etc/hosts is odd"));
        check(" /bogus", Some("/bogus"));
        check(" /stop it", Some("/stop it"));
        // SP-23: several words are an ordinary message.
        check("/send it over", Some("/send it over"));
    }

    #[test]
    fn a_refusal_goes_away_when_sends_are_allowed_again() {
        let mut screen = composing();
        let policy = |screen: &mut Screen, policy: &str| {
            let detail = json!({ "row": row("agent:a:main", 1), "sendPolicy": policy,
                "sendPolicySource": "override", "entry": {}, "runs": [] });
            let detail = Box::new(serde_json::from_value(detail).unwrap());
            screen.answer(
                |r| matches!(r, Request::Detail { .. }),
                Reply::Detail(detail),
            );
        };
        policy(&mut screen, "allow");
        screen.type_text("hello");
        screen.keys("enter");
        let (ticket, _) = sent(&screen);
        screen.out.clear();
        let refused = Failure::new(Code::Refused, "session agent:a:main takes no messages");
        screen.reply(ticket, Err(refused));
        let why = screen.app.compose.failure.clone().unwrap();
        assert_eq!(why.as_str(), "not sent: this session takes no messages");
        policy(&mut screen, "deny");
        assert!(screen.app.compose.failure.is_some());
        let changed = Row {
            send_policy: Some(crosstalk::model::session::SendPolicy::Allow),
            ..row("agent:a:main", 1)
        };
        let what = backend::What::SessionChanged {
            row: Box::new(changed),
        };
        screen.out.clear();
        screen.event("agent:a:main", None, what);
        policy(&mut screen, "allow");
        assert_eq!(screen.app.compose.failure, None);
        assert_eq!(text(&screen), "hello");
    }

    #[test]
    fn the_text_stays_until_the_engine_has_it() {
        let mut screen = composing();
        screen.type_text("hello");
        screen.keys("enter");
        assert_eq!(text(&screen), "hello");
        let (ticket, run) = sent(&screen);
        screen.keys("enter");
        assert_eq!(sent(&screen).1, run, "not sent twice");
        let accepted = Accepted {
            run_id: run.clone(),
            session_key: "agent:a:main".into(),
            queued_behind: 2,
        };
        screen.reply(ticket, Ok(Reply::Accepted(accepted)));
        assert_eq!(text(&screen), "");
        let state = |screen: &Screen| screen.app.compose.ledger[0].entry.state;
        assert_eq!(state(&screen), SendState::Queued);
        assert_eq!(
            screen.app.compose.ledger[0].state_shown(),
            Clean::fixed("queued behind 2")
        );
        screen.event(
            "agent:a:main",
            Some(&run),
            backend::What::RunStarted {
                origin: RunOrigin::Operator,
            },
        );
        assert_eq!(state(&screen), SendState::Running);
        screen.answer(
            |r| {
                matches!(
                    r,
                    Request::Wait {
                        timeout_ms: 30_000,
                        ..
                    }
                )
            },
            Reply::Waited(Waited {
                state: None,
                settled: false,
                run_id: run.clone(),
                outcome: None,
                reply: None,
                error: None,
                post: None,
                started_at: None,
                ended_at: None,
            }),
        );
        assert_eq!(state(&screen), SendState::WaitOver);
        let ended = backend::What::RunEnded {
            origin: RunOrigin::Operator,
            outcome: Outcome::Ok,
            error: None,
            usage: None,
        };
        screen.event("agent:a:main", Some(&run), ended);
        assert_eq!(state(&screen), SendState::Replied);
    }

    #[test]
    fn a_failed_send_keeps_its_text_and_says_why() {
        let mut screen = composing();
        screen.type_text("hello");
        screen.keys("enter");
        let (ticket, _) = sent(&screen);
        screen.reply(
            ticket,
            Err(Failure::new(Code::Forbidden, "sends are off (rule 2)")),
        );
        assert_eq!(text(&screen), "hello");
        let why = screen.app.compose.failure.clone().unwrap().into_string();
        assert!(why.contains("rule 2"), "{why}");
        assert_eq!(screen.app.compose.ledger[0].entry.state, SendState::Refused);
    }

    #[test]
    fn a_tool_send_that_is_refused_keeps_its_text_too() {
        let mut screen = composing();
        screen.app.compose.sender =
            crosstalk::app::compose::Sender::Session(SessionKey::foreign("agent:b:main"));
        screen.type_text("hello");
        let effects = screen.keys("enter");
        let call = effects.iter().find_map(|e| match e {
            Effect::Call { call, .. } => Some(call.clone()),
            _ => None,
        });
        let call = call.unwrap();
        assert_eq!(call.caller.session, Some("agent:b:main".into()));
        let Request::Tool {
            arguments, call_id, ..
        } = &call.request
        else {
            panic!()
        };
        assert_eq!(
            arguments,
            &json!({ "sessionKey": "agent:a:main", "message": "hello", "timeoutSeconds": 30 })
        );
        assert!(call_id.is_some());
        screen.answer(
            |r| matches!(r, Request::Tool { .. }),
            Reply::Tool {
                payload: json!({ "runId": "x", "status": "forbidden", "error": "not yours" }),
            },
        );
        assert_eq!(text(&screen), "hello");
        assert!(screen.app.compose.failure.is_some());
    }

    #[test]
    fn drafts_belong_to_their_session() {
        let mut screen = composing();
        screen.type_text("for a");
        screen.keys("esc esc j enter");
        assert!(screen.out.contains(&Effect::SaveDraft {
            key: SessionKey::foreign("agent:a:main"),
            text: "for a".into(),
        }));
        screen.keys("c");
        assert_eq!(text(&screen), "");
        screen.type_text("for b");
        screen.keys("esc esc k enter c");
        assert_eq!(text(&screen), "for a");
    }

    #[test]
    fn drafts_that_were_kept_come_back_but_never_over_what_is_typed() {
        let mut screen = composing();
        screen.type_text("newer");
        screen.happen(What::Drafts(vec![
            ("agent:a:main".into(), "older".into()),
            ("agent:b:main".into(), "for b".into()),
        ]));
        assert_eq!(text(&screen), "newer");
        screen.keys("esc esc j enter c");
        assert_eq!(text(&screen), "for b");
    }

    #[test]
    fn a_draft_is_kept_after_a_pause() {
        let mut screen = composing();
        screen.type_text("x");
        let wake = screen.app.next_wake().unwrap();
        assert!(wake <= screen.now + 1000);
        let effects = screen.after(1000);
        assert!(
            matches!(&effects[..], [Effect::SaveDraft { .. }]),
            "{effects:?}"
        );
    }

    #[test]
    fn pasting_never_sends() {
        let mut screen = composing();
        let effects = screen.happen(What::Paste("one\r\ntwo\r\n".into()));
        assert!(effects.is_empty());
        assert_eq!(text(&screen), "one\ntwo\n");
    }

    #[test]
    fn ctrl_c_clears_and_undo_brings_back_then_asks_to_quit() {
        let mut screen = composing();
        screen.type_text("precious");
        screen.keys("ctrl+c");
        assert_eq!(text(&screen), "");
        screen.keys("alt+u");
        assert_eq!(text(&screen), "precious");
        screen.keys("ctrl+c ctrl+c");
        assert!(
            matches!(screen.app.layers.last(), Some(Layer::Menu(menu)) if menu.is_quit_question)
        );
        let effects = screen.keys("ctrl+c");
        assert!(effects.contains(&Effect::Quit(Quit::Keep)));
    }

    #[test]
    fn enter_sends_and_alt_enter_breaks_the_line() {
        let mut screen = composing();
        screen.type_text("a");
        screen.keys("alt+enter");
        screen.type_text("b");
        screen.keys("ctrl+j");
        screen.type_text("c");
        assert_eq!(text(&screen), "a\nb\nc");
    }

    #[test]
    fn commands_do_what_they_say() {
        let check = |typed: &str, expect: Option<Request>| {
            let mut screen = composing();
            screen.type_text(typed);
            let effects = screen.keys("enter");
            let call = effects.into_iter().find_map(|e| match e {
                Effect::Call { call, .. } => Some(call.request),
                _ => None,
            });
            let call = call.filter(|r| !matches!(r, Request::Detail { .. }));
            match expect {
                Some(expect) => assert_eq!(call, Some(expect), "{typed}"),
                None => assert!(
                    matches!(call, Some(Request::Send { .. })),
                    "{typed}: {call:?}"
                ),
            }
        };
        let patch = |field: &str, value: serde_json::Value| {
            Some(Request::Patch {
                key: "agent:a:main".into(),
                fields: [(field.to_owned(), value)].into_iter().collect(),
            })
        };
        check("/send off", patch("sendPolicy", "deny".into()));
        check("/send INHERIT", patch("sendPolicy", json!(null)));
        check("/label the cat", patch("label", "the cat".into()));
        check("/model", patch("model", json!(null)));
        check("/think high", patch("thinkingLevel", "high".into()));
        check(
            "/stop",
            Some(Request::Abort {
                target: "agent:a:main".into(),
                tree: true,
            }),
        );
        check(
            "/abort",
            Some(Request::Abort {
                target: "agent:a:main".into(),
                tree: false,
            }),
        );
        check(
            "/new",
            Some(Request::Reset {
                key: "agent:a:main".into(),
            }),
        );
        // SP-23, and what only looks like a command.
        check("/send on please", None);
        check("/etc/passwd is odd", None);
    }

    #[test]
    fn sp_23_send_alone_is_a_usage_line() {
        let mut screen = composing();
        screen.type_text("/send");
        let effects = screen.keys("enter");
        assert!(!effects.iter().any(|e| matches!(e, Effect::Call { .. })));
        assert!(screen.app.compose.failure.is_some());
    }

    #[test]
    fn tab_completes_a_command() {
        let mut screen = composing();
        screen.type_text("/arc");
        screen.keys("tab");
        assert_eq!(text(&screen), "/archive");
    }

    #[test]
    fn up_recalls_when_the_box_is_empty() {
        let mut screen = composing();
        screen.type_text("first");
        screen.keys("enter");
        let (ticket, run) = sent(&screen);
        let accepted = Accepted {
            run_id: run,
            session_key: "agent:a:main".into(),
            queued_behind: 0,
        };
        screen.reply(ticket, Ok(Reply::Accepted(accepted)));
        screen.keys("up");
        assert_eq!(text(&screen), "first");
        screen.keys("down");
        assert_eq!(text(&screen), "");
    }
}

mod spawn {
    use super::*;
    use crosstalk::app::spawn::Field;
    use crosstalk::protocol::methods::Choices;

    fn is_tool(request: &Request) -> bool {
        matches!(request, Request::Tool { .. })
    }

    fn dialog() -> Screen {
        let mut screen = Screen::with(three());
        screen.keys("s");
        screen.answer(
            |r| matches!(r, Request::Choices {}),
            Reply::Choices(Choices {
                requester: "a".into(),
                models: vec!["sonnet".into(), "haiku".into()],
                max_depth: 1,
                max_children: 5,
                threads: true,
                ..Choices::default()
            }),
        );
        screen
    }

    #[test]
    fn a_task_is_needed_before_anything_is_asked() {
        let mut screen = dialog();
        let effects = screen.keys("ctrl+s");
        assert!(effects.is_empty());
        let form = screen.app.spawn.as_ref().unwrap();
        assert_eq!(form.errors_of(Field::Task).count(), 1);
    }

    #[test]
    fn what_is_chosen_is_sent_and_nothing_else() {
        let mut screen = dialog();
        screen.type_text("look");
        screen.keys("tab tab");
        screen.type_text("scan");
        screen.keys("tab right tab right right ctrl+s");
        let (_, request) = screen.ticket(is_tool).unwrap();
        let Request::Tool {
            name,
            arguments,
            call_id,
        } = request
        else {
            panic!()
        };
        assert_eq!(name, "sessions_spawn");
        assert!(call_id.is_some());
        assert_eq!(
            arguments,
            json!({ "task": "look", "label": "scan", "model": "sonnet", "thinking": "minimal" })
        );
        screen.answer(is_tool, Reply::Tool {
            payload: json!({ "status": "accepted", "childSessionKey": "agent:a:subagent:1", "runId": "r", "modelApplied": true }),
        });
        assert!(screen.app.layers.is_empty());
        assert!(screen.app.spawn.is_none());
        // The child's row may come later: its transcript is shown, the cursor waits for it.
        let shown = screen.app.transcript.key.as_ref().map(SessionKey::as_str);
        assert_eq!(shown, Some("agent:a:subagent:1"));
        let mut changed = |key: &str, row: Row| {
            screen.event(
                key,
                None,
                backend::What::SessionChanged { row: Box::new(row) },
            );
        };
        changed("agent:b:main", row("agent:b:main", 0));
        changed(
            "agent:a:subagent:1",
            child("agent:a:subagent:1", "agent:a:main", 0),
        );
        assert_eq!(screen.selected(), "agent:a:subagent:1");
        assert!(screen.app.sessions.selected_line().is_some());
    }

    #[test]
    fn p_7_mode_session_needs_a_thread() {
        let mut screen = dialog();
        let form = |screen: &Screen| screen.app.spawn.clone().unwrap();
        assert!(form(&screen).mode.options[1].blocked.is_some());
        screen.app.spawn.as_mut().unwrap().field = Field::Thread;
        screen.keys("right");
        assert_eq!(form(&screen).mode.value(), Some("session"));
        assert!(form(&screen).cleanup.options[1].blocked.is_some());
        screen.keys("right");
        assert_eq!(form(&screen).mode.value(), Some("run"));
    }

    #[test]
    fn a_refused_form_stays_filled_in_and_says_why_at_its_field() {
        let mut screen = dialog();
        screen.type_text("look");
        screen.keys("ctrl+s");
        screen.answer(
            is_tool,
            Reply::Tool {
                payload: json!({ "status": "error", "error": "model \"gpt-9\" is not known" }),
            },
        );
        let form = screen.app.spawn.as_ref().unwrap();
        assert_eq!(form.task_text(), "look".into());
        assert_eq!(form.errors_of(Field::Model).count(), 1);
        assert!(!form.busy);
        screen.keys("esc s");
        assert_eq!(
            screen.app.spawn.as_ref().unwrap().task_text(),
            "look".into()
        );
    }

    #[test]
    fn files_can_be_taken_out_again() {
        let mut screen = dialog();
        screen.type_text("look");
        screen.app.spawn.as_mut().unwrap().field = Field::Attach;
        for name in ["a", "b", "c"] {
            screen.type_text(name);
            screen.keys("enter");
            screen.happen(What::FileRead {
                path: name.into(),
                result: if name == "b" {
                    Err("no such file".into())
                } else {
                    Ok(name.into())
                },
            });
        }
        screen.keys("ctrl+s");
        assert!(screen.ticket(is_tool).is_none());
        // Where something is typed, the keys edit it.
        screen.type_text("x");
        screen.keys("left backspace delete");
        let names = |screen: &Screen| -> Vec<String> {
            let files = &screen.app.spawn.as_ref().unwrap().attachments;
            files.iter().map(|file| file.path.clone()).collect()
        };
        assert_eq!(names(&screen), ["a", "b", "c"]);
        screen.keys("left delete");
        assert_eq!(names(&screen), ["a", "c"]);
        screen.keys("ctrl+s");
        assert!(screen.ticket(is_tool).is_some());
        screen.keys("backspace backspace backspace");
        assert_eq!(names(&screen), [""; 0]);
    }

    #[test]
    fn files_are_read_by_the_runtime() {
        let mut screen = dialog();
        screen.type_text("look");
        screen.app.spawn.as_mut().unwrap().field = Field::Attach;
        screen.type_text("/tmp/deploy.log");
        let effects = screen.keys("enter");
        assert_eq!(
            effects,
            [Effect::ReadFile {
                path: "/tmp/deploy.log".into()
            }]
        );
        screen.keys("ctrl+s");
        assert!(screen.ticket(is_tool).is_none(), "still being read");
        screen.happen(What::FileRead {
            path: "/tmp/deploy.log".into(),
            result: Ok(b"abc".to_vec()),
        });
        screen.keys("ctrl+s");
        let (_, Request::Tool { arguments, .. }) = screen.ticket(is_tool).unwrap() else {
            panic!()
        };
        assert_eq!(
            arguments["attachments"],
            json!([{ "name": "deploy.log", "content": "abc", "encoding": "utf8" }])
        );
    }
}

mod leaving {
    use super::*;

    fn running() -> Screen {
        let mut screen = Screen::with(three());
        screen.event(
            "agent:a:main",
            Some("r1"),
            backend::What::RunStarted {
                origin: RunOrigin::Channel,
            },
        );
        screen
    }

    #[test]
    fn nothing_runs_nothing_is_asked() {
        let mut screen = Screen::with(three());
        assert!(screen.keys("q").contains(&Effect::Quit(Quit::Keep)));
    }

    #[test]
    fn runs_alive_are_asked_about() {
        let check = |keys: &str, expect: Option<Quit>| {
            let mut screen = running();
            assert!(
                !screen
                    .keys("q")
                    .iter()
                    .any(|e| matches!(e, Effect::Quit(_)))
            );
            let effects = screen.keys(keys);
            let quit = effects.iter().find_map(|e| match e {
                Effect::Quit(how) => Some(*how),
                _ => None,
            });
            assert_eq!(quit, expect, "{keys}");
            let aborts = effects
                .iter()
                .filter(|e| matches!(e, Effect::Call { call, .. } if matches!(call.request, Request::Abort { .. })))
                .count();
            assert_eq!(aborts, usize::from(expect == Some(Quit::Stop)), "{keys}");
        };
        check("k", Some(Quit::Keep));
        check("s", Some(Quit::Stop));
        check("n", None);
        check("esc", None);
        check("ctrl+c", Some(Quit::Keep));
        check("enter", Some(Quit::Keep));
    }

    #[test]
    fn esc_goes_back_and_never_stops_anything() {
        let mut screen = running();
        screen.keys("enter c");
        let mut effects = screen.keys("esc");
        assert_eq!(screen.app.focus, Focus::Transcript);
        effects.extend(screen.keys("esc esc esc esc"));
        assert_eq!(screen.app.focus, Focus::List);
        assert!(effects.is_empty(), "{effects:?}");
    }

    #[test]
    fn an_observer_changes_nothing() {
        let mut screen = Screen::with(three());
        screen.app.observe = true;
        screen.app.header.info = Some(Info {
            demo: true,
            ..Info::default()
        });
        screen.out.clear();
        for keys in ["s", "X", "D", "R", "P", "x", "c", "ctrl+o", "tab tab"] {
            screen.keys(keys);
            assert!(screen.app.layers.is_empty(), "{keys}");
            assert_ne!(screen.app.focus, Focus::Compose, "{keys}");
        }
        screen.happen(What::Paste("hi".into()));
        screen.app.focus = Focus::Compose;
        screen.type_text("hi");
        screen.keys("enter");
        assert!(screen.app.compose.text().is_empty());
        screen.app.focus = Focus::List;
        screen.keys("ctrl+p");
        let Some(Layer::Palette(menu)) = screen.app.layer() else {
            panic!()
        };
        for item in &menu.items {
            if let Pick::Do(action) = item.pick {
                assert!(!action.changes(), "{action:?}");
            }
        }
        let hints = help::sections(&screen.app)
            .into_iter()
            .flat_map(|s| s.hints);
        let offered: Vec<Action> = hints
            .chain(help::footer(&screen.app))
            .map(|hint| hint.action)
            .filter(|action| action.changes())
            .collect();
        assert_eq!(offered, []);
        let changes = screen.out.iter().any(|e| {
            matches!(e, Effect::Call { call, .. } if !matches!(call.request, Request::Detail { .. } | Request::History(_)))
        });
        assert!(!changes);
    }

    #[test]
    fn a_source_that_turns_out_to_be_read_only_takes_the_box_away() {
        let mut screen = Screen::with(three());
        screen.open(&["one"]);
        screen.keys("c");
        assert_eq!(screen.app.focus, Focus::Compose);
        screen.answer(
            |r| matches!(r, Request::Info {}),
            Reply::Info(Box::new(Info {
                read_only: true,
                ..Info::default()
            })),
        );
        assert_eq!(screen.app.focus, Focus::Transcript);
        let hint = screen.app.compose_hint().unwrap();
        assert!(hint.as_str().contains("read-only"), "{hint:?}");
    }

    #[test]
    fn main_sessions_are_neither_deleted_nor_archived() {
        let mut screen = Screen::with(vec![
            row("agent:a:main", 1),
            row("agent:a:telegram:group:g", 2),
        ]);
        screen.out.clear();
        for keys in ["D", "X"] {
            screen.app.toast = None;
            screen.keys(keys);
            assert!(screen.app.layers.is_empty(), "{keys}");
            let toast = screen.app.toast.as_ref().unwrap();
            assert!(toast.text.as_str().contains("can be reset"), "{toast:?}");
        }
        assert!(
            screen
                .ticket(|r| matches!(r, Request::Archive { .. }))
                .is_none()
        );
        screen.keys("j D");
        let Some(Layer::Menu(menu)) = screen.app.layer() else {
            panic!()
        };
        assert!(
            menu.note
                .iter()
                .any(|note| note.as_str().contains("is kept"))
        );
        screen.keys("esc X");
        assert!(
            screen
                .ticket(|r| matches!(r, Request::Archive { .. }))
                .is_some()
        );
    }
}

#[test]
fn ages_tell_when_they_change() {
    use crosstalk::app::ages;
    let check = |age_ms: i64, shown: &'static str, left_ms: i64| {
        let now = T0 + age_ms;
        assert_eq!(ages::shown(now, T0).as_str(), shown);
        assert_eq!(ages::changes_at(now, T0) - now, left_ms);
        assert_ne!(ages::shown(now + left_ms, T0).as_str(), shown);
        assert_eq!(ages::shown(now + left_ms - 1, T0).as_str(), shown);
    };
    check(0, "now", 5000);
    check(14_300, "14s", 700);
    check(61_000, "1m", 59_000);
    check(3_600_000, "1h", 3_600_000);
    check(90_000_000, "1d", 82_800_000);
    check(1_209_600_000, "2w", 604_800_000);
}

#[test]
fn a_browser_that_was_just_opened_shows_what_moves_once_unless_somebody_chose() {
    for (keys, expected) in [("", "agent:ops:main"), ("j", "agent:research:main")] {
        let mut screen = Screen::with(vec![
            row("agent:main:main", 1),
            row("agent:research:main", 2),
            row("agent:ops:main", 3),
        ]);
        screen.keys(keys);
        let started = || backend::What::RunStarted {
            origin: RunOrigin::Send,
        };
        screen.event("agent:ops:main", Some("r1"), started());
        screen.event("agent:main:main", Some("r2"), started());
        let selected = screen.app.sessions.selected.as_ref().unwrap();
        assert_eq!(selected.as_str(), expected, "{keys:?}");
    }
}

mod total {
    use super::*;
    use crosstalk::app::event::{Mouse, MouseDid};
    use crosstalk::app::geometry::{Area, Size, Spot};
    use crosstalk::app::key::Code;
    use crosstalk::protocol::methods::Code as Code_;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = KeyPress> {
        let code = prop_oneof![
            8 => prop::sample::select(" /?:.<>{}0123456789aAbcCdDeFgGhiJjKklLmMnNoOpPqRrsStTuwxXyYz".chars().collect::<Vec<_>>())
                .prop_map(Code::Char),
            1 => any::<char>().prop_map(Code::Char),
            6 => prop::sample::select(vec![
                Code::Enter, Code::Esc, Code::Tab, Code::Backspace, Code::Delete, Code::Left, Code::Right,
                Code::Up, Code::Down, Code::Home, Code::End, Code::PageUp, Code::PageDown,
            ]),
        ];
        (
            code,
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.1),
        )
            .prop_map(|(code, ctrl, alt, shift)| KeyPress::new(code, ctrl, alt, shift))
    }

    #[derive(Debug, Clone)]
    enum Step {
        Key(KeyPress),
        Paste(String),
        Mouse(u16, u16, u8),
        Appended(u8, u64, String),
        Run(u8, u8, u8),
        Reply(u8, u64),
        Fail(u8),
        Drawn(u64, u64, bool),
        Later(i64),
        Resize(u16, u16),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => any_key().prop_map(Step::Key),
            1 => "\\PC{0,12}|a\nb".prop_map(Step::Paste),
            2 => (0u16..120, 0u16..40, 0u8..5).prop_map(|(x, y, did)| Step::Mouse(x, y, did)),
            3 => (0u8..4, 0u64..20, "[a-z/]{0,6}").prop_map(|(s, p, t)| Step::Appended(s, p, t)),
            3 => (0u8..4, 0u8..4, 0u8..5).prop_map(|(s, r, w)| Step::Run(s, r, w)),
            3 => (any::<u8>(), 0u64..10).prop_map(|(w, n)| Step::Reply(w, n)),
            1 => any::<u8>().prop_map(Step::Fail),
            2 => (0u64..20, 0u64..20, any::<bool>()).prop_map(|(a, b, c)| Step::Drawn(a, b, c)),
            1 => (0i64..100_000).prop_map(Step::Later),
            1 => (0u16..200, 0u16..80).prop_map(|(c, r)| Step::Resize(c, r)),
        ]
    }

    fn key_of(session: u8) -> String {
        [
            "agent:a:main",
            "agent:b:main",
            "agent:a:subagent:1",
            "agent:new:main",
        ][usize::from(session) % 4]
            .to_owned()
    }

    fn answer_for(request: &Request, n: u64) -> Reply {
        match request {
            Request::History(_) => {
                let lines = (n..n + 5).map(|p| line(p * 100, "x")).collect();
                Reply::Lines(page(lines, n * 100, (n + 5) * 100, n == 0))
            }
            Request::List(_) => Reply::Rows(Rows {
                rows: three(),
                ..Rows::default()
            }),
            Request::Choices {} => Reply::Choices(Default::default()),
            Request::Tool { .. } => {
                let status = ["accepted", "ok", "error", "timeout", "odd"][(n % 5) as usize];
                Reply::Tool {
                    payload: json!({ "status": status, "childSessionKey": key_of(n as u8), "reply": "r" }),
                }
            }
            Request::Send { run_id, key, .. } => Reply::Accepted(Accepted {
                run_id: run_id.clone(),
                session_key: key.clone(),
                queued_behind: 1,
            }),
            Request::Wait { run_id, .. } => Reply::Waited(Waited {
                state: None,
                settled: false,
                run_id: run_id.clone(),
                outcome: n.is_multiple_of(2).then_some(Outcome::Ok),
                reply: Some("r".into()),
                error: None,
                post: None,
                started_at: None,
                ended_at: None,
            }),
            _ => Reply::Done { note: None },
        }
    }

    fn take(screen: &mut Screen, step: Step) {
        match step {
            Step::Key(key) => {
                screen.happen(What::Key(key));
            }
            Step::Paste(text) => {
                screen.happen(What::Paste(text.into()));
            }
            Step::Mouse(column, row, did) => {
                let did = [
                    MouseDid::Press,
                    MouseDid::Drag,
                    MouseDid::Release,
                    MouseDid::WheelUp,
                    MouseDid::WheelDown,
                ][usize::from(did)];
                screen.happen(What::Mouse(Mouse { column, row, did }));
            }
            Step::Appended(session, position, text) => {
                let raw = line(position * 100, &text);
                let position = raw.position;
                let what = backend::What::MessageAppended {
                    message: Box::new(raw),
                    position,
                };
                screen.event(&key_of(session), None, what);
            }
            Step::Run(session, run, what) => {
                let origin = RunOrigin::Operator;
                let what = match what {
                    0 => backend::What::RunAccepted {
                        origin,
                        queued_behind: Some(1),
                    },
                    1 => backend::What::RunStarted { origin },
                    2 => backend::What::RunDelta {
                        text: None,
                        delta: Some("d".into()),
                        thinking: None,
                    },
                    3 => backend::What::Resync {},
                    _ => backend::What::RunEnded {
                        origin,
                        outcome: Outcome::Error,
                        error: None,
                        usage: None,
                    },
                };
                screen.event(&key_of(session), Some(&format!("r{run}")), what);
            }
            Step::Reply(which, n) => {
                let calls: Vec<(Ticket, Request)> = screen
                    .out
                    .iter()
                    .filter_map(|effect| match effect {
                        Effect::Call { ticket, call } => Some((*ticket, call.request.clone())),
                        _ => None,
                    })
                    .collect();
                let (ticket, request) =
                    &calls[calls.len() - 1 - usize::from(which) % calls.len().min(6)];
                screen.reply(*ticket, Ok(answer_for(request, n)));
            }
            Step::Fail(which) => {
                let last = screen.ticket(|_| true).map_or(0, |(ticket, _)| ticket.0);
                let ticket = Ticket(last.saturating_sub(u64::from(which) % 6));
                screen.reply(ticket, Err(Failure::new(Code_::Unavailable, "gone")));
            }
            Step::Drawn(first, last, at_bottom) => {
                screen.happen(What::Drawn(Box::new(Viewport {
                    spots: vec![
                        (
                            Area {
                                x: 0,
                                y: 0,
                                width: 40,
                                height: 20,
                            },
                            Spot::Session(SessionKey::foreign(&key_of(first as u8))),
                        ),
                        (
                            Area {
                                x: 40,
                                y: 0,
                                width: 1,
                                height: 40,
                            },
                            Spot::Divider,
                        ),
                        (
                            Area {
                                x: 41,
                                y: 0,
                                width: 60,
                                height: 20,
                            },
                            Spot::Message(last * 100),
                        ),
                        (
                            Area {
                                x: 41,
                                y: 20,
                                width: 60,
                                height: 10,
                            },
                            Spot::MenuItem(first as usize),
                        ),
                    ],
                    list_top: first as usize,
                    list_rows: 10,
                    transcript: TranscriptView {
                        top: Some((first * 100, 0)),
                        first: Some(first * 100),
                        last: Some(last * 100),
                        first_cut: first.is_multiple_of(2),
                        last_cut: last.is_multiple_of(2),
                        at_top: first == 0,
                        at_bottom,
                        rows: 10,
                    },
                    pager_top: 0,
                    pager_rows: 5,
                    narrow: at_bottom,
                })));
            }
            Step::Later(ms) => {
                screen.after(ms);
            }
            Step::Resize(columns, rows) => {
                screen.happen(What::Resize(Size { columns, rows }));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// No sequence of events makes it panic, and what is derived can be asked for at any moment.
        #[test]
        fn whatever_happens_it_goes_on(steps in prop::collection::vec(any_step(), 1..80)) {
            let mut screen = Screen::with(three());
            for step in steps {
                take(&mut screen, step);
                let app = &screen.app;
                prop_assert!(app.next_wake() > Some(app.now_ms));
                crosstalk::app::help::footer(app);
                crosstalk::app::help::sections(app);
                app.compose_hint();
                app.sessions.hidden(app.now_ms);
                let positions: Vec<u64> = app.transcript.items.iter().map(|m| m.position).collect();
                prop_assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
            }
        }
    }
}
