use super::*;
use crosstalk::agents::scripted::Directives;
use serde_json::json;

async fn check(kind: StepKind, message: &str, expect: &str) {
    let answer = ask(&Directives, &step(kind, message)).await.unwrap();
    assert_eq!(text(&answer), expect, "{kind:?} {message}");
    assert_eq!(answer.calls, [], "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_answered_by_its_directives() {
    let cases = [
        ("hello", "echo: hello"),
        ("  hello \n", "echo: hello"),
        ("", "echo: "),
        ("[[reply:hi]]", "hi"),
        ("well, [[reply:hi]] then", "hi"),
        ("[[reply:]]", ""),
        ("[[reply: hi ]]", " hi "),
        ("[[reply:a:b]]", "a:b"),
        ("[[reply:two\nlines]]", "two\nlines"),
        ("[[reply:全部 👍]]", "全部 👍"),
        ("[[reply:say [[reply:x]] now]]", "say [[reply:x]] now"),
        ("[[reply:one]] [[reply:two]]", "one"),
        ("[[ping:2]]", "pong 2 [[ping:1]]"),
        ("[[ping:1]]", "pong 1 [[ping:0]]"),
        ("[[ping:0]]", "REPLY_SKIP"),
        ("[[ping:x]]", "REPLY_SKIP"),
        ("pong 7 [[ping:6]]", "pong 6 [[ping:5]]"),
        ("[[reply:hi]] [[ping:0]]", "REPLY_SKIP"),
        ("[[raw:\"X\"]] [[reply:hi]]", "hi"),
        (r#"[[raw:"a\u001b[31mb\n"]]"#, "a\u{1b}[31mb\n"),
        ("[[raw:no json]]", "no json"),
        ("[[big:15]]", "lorem ipsum lor"),
        ("[[big:0]]", ""),
        ("[[big:many]]", ""),
        ("[[big:3]] [[reply:hi]]", "hi"),
        ("[[slow:2.5]] [[reply:hi]]", "hi"),
        ("[[slow:1]] hello", "echo: [[slow:1]] hello"),
        // Not directives: words in brackets, other names, what is never closed.
        ("[[Reply:hi]]", "echo: [[Reply:hi]]"),
        ("[[re ply:hi]]", "echo: [[re ply:hi]]"),
        ("[[unknown:hi]]", "echo: [[unknown:hi]]"),
        ("[[reply:hi", "echo: [[reply:hi"),
        ("[[reply:hi]", "echo: [[reply:hi]"),
        ("[[", "echo: [["),
        ("[[[[[[", "echo: [[[[[["),
        ("]] [[]]", "echo: ]] [[]]"),
        ("[[tool:]]", "echo: [[tool:]]"),
    ];
    for (message, expect) in cases {
        check(StepKind::Message, message, expect).await;
    }
}

#[tokio::test]
async fn a_reply_step_goes_on_only_with_ping() {
    let cases = [
        ("pong 2 [[ping:1]]", "pong 1 [[ping:0]]"),
        ("pong 1 [[ping:0]]", "REPLY_SKIP"),
        ("anything", "REPLY_SKIP"),
        ("[[reply:hi]]", "REPLY_SKIP"),
        ("[[big:5]]", "REPLY_SKIP"),
    ];
    for (message, expect) in cases {
        check(StepKind::Reply, message, expect).await;
    }
}

#[tokio::test]
async fn an_announce_step_is_silent_when_the_request_was_quiet() {
    let cases = [
        (None, "announce: the exchange is over"),
        (Some("[[reply:hi]]"), "announce: the exchange is over"),
        (Some("do it [[quiet]]"), "ANNOUNCE_SKIP"),
    ];
    for (about, expect) in cases {
        let mut step = step(StepKind::Announce, "Announce step. [[fail]]");
        step.about = about.map(Untrusted::from);
        let answer = ask(&Directives, &step).await.unwrap();
        assert_eq!(text(&answer), expect, "{about:?}");
    }
}

#[tokio::test]
async fn a_report_is_never_read_for_directives() {
    let cases = [
        (Some("scan logs"), "announce: scan logs is done"),
        (Some("  "), "announce: a task is done"),
        (None, "announce: a task is done"),
    ];
    for (about, expect) in cases {
        let mut step = step(
            StepKind::Report,
            "Result: [[fail]] [[tool:sessions_list {}]]",
        );
        step.about = about.map(Untrusted::from);
        let answer = ask(&Directives, &step).await.unwrap();
        assert_eq!(text(&answer), expect, "{about:?}");
        assert_eq!(answer.calls, []);
    }
}

#[tokio::test]
async fn fail_comes_before_everything() {
    let cases = [
        ("[[fail]]", "scripted failure"),
        ("[[fail:]]", "scripted failure"),
        ("[[fail:no [[quota]] left]]", "no [[quota]] left"),
        ("[[tool:x {}]] [[reply:hi]] [[fail:gone]]", "gone"),
    ];
    for (message, expect) in cases {
        for kind in [StepKind::Message, StepKind::Reply] {
            let error = ask(&Directives, &step(kind, message)).await.unwrap_err();
            assert_eq!(error.0.raw(), expect, "{message}");
        }
    }
}

#[tokio::test]
async fn tools_are_called_one_a_step_and_then_answered() {
    let message = r#"[[tool:sessions_list {"limit":2,"kinds":[["a"]]}]] then [[tool:web.get-it]] [[tool:x oops]] [[tool:y [1]]]"#;
    let expect = [
        ("sessions_list", json!({ "limit": 2, "kinds": [["a"]] })),
        ("web.get-it", json!({})),
        ("x", json!({})),
        ("y", json!({})),
    ];
    let mut step = step(StepKind::Message, message);
    let mut ids = std::collections::BTreeSet::new();
    for (name, arguments) in expect {
        let answer = ask(&Directives, &step).await.unwrap();
        let [call] = answer.calls.as_slice() else {
            panic!("{name}: {:?}", answer.calls);
        };
        assert_eq!((call.name.as_str(), &call.arguments), (name, &arguments));
        assert_eq!(text(&answer), "");
        assert!(ids.insert(call.id.clone()), "ids are unique");
        step.results.push(outcome("{\n  \"count\":   0\n}\n"));
    }
    let answer = ask(&Directives, &step).await.unwrap();
    assert_eq!(answer.calls, []);
    assert_eq!(
        text(&answer),
        "done: 4 tool result(s); last: { \"count\": 0 }"
    );
}

#[tokio::test]
async fn after_tools_the_answer_that_was_asked_for() {
    let cases = [
        ("[[tool:x {}]] [[reply:hi]]", "hi"),
        ("[[tool:x {}]] [[ping:1]]", "pong 1 [[ping:0]]"),
        (
            "[[tool:x {}]]",
            &*format!("done: 1 tool result(s); last: {}", "é".repeat(160)),
        ),
    ];
    for (message, expect) in cases {
        let mut step = step(StepKind::Message, message);
        step.results.push(outcome(&"é".repeat(500)));
        let answer = ask(&Directives, &step).await.unwrap();
        assert_eq!(text(&answer), expect, "{message}");
    }
}

#[tokio::test]
async fn thinking_comes_first_and_once() {
    let told = Told::default();
    let mut step = step(StepKind::Message, "[[think:hm, [[1]]]] [[tool:x {}]]");
    let answer = Directives.step(&step, &told).await.unwrap();
    assert_eq!(raw(answer.thinking.as_ref()), Some("hm, [[1]]"));
    assert_eq!(*told.thoughts.lock().unwrap(), ["hm, [[1]]"]);
    step.results.push(outcome("1"));
    let answer = Directives.step(&step, &told).await.unwrap();
    assert_eq!(answer.thinking, None);
}

#[tokio::test]
async fn usage_is_what_was_asked_for_or_the_length() {
    let cases = [
        ("[[usage:1234]] x", 1234),
        ("[[usage:-4]]", 3),
        ("[[usage:x]]", 3),
        ("12345", 2),
        ("", 0),
    ];
    for (message, input) in cases {
        let answer = ask(&Directives, &step(StepKind::Message, message))
            .await
            .unwrap();
        let usage = answer.usage;
        assert_eq!((usage.input, usage.output), (input, 7), "{message}");
        assert_eq!(usage.total_tokens, input + 7, "{message}");
    }
}

#[tokio::test]
async fn the_model_of_the_session_answers() {
    let cases = [
        (None, "scripted", "directives"),
        (Some("acme/large"), "acme", "large"),
        (Some("large"), "scripted", "large"),
    ];
    for (model, provider, name) in cases {
        let mut step = step(StepKind::Message, "hi");
        step.model = model.map(str::to_owned);
        let answer = ask(&Directives, &step).await.unwrap();
        assert_eq!((&*answer.provider, &*answer.model), (provider, name));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_streams_the_answer_over_its_seconds() {
    let cases = [
        ("[[slow:2]] [[reply:one two three four]]", 2000, 4),
        ("[[slow:0.5]] [[reply:one]]", 500, 1),
        ("[[slow]] [[reply:one two]]", 5000, 2),
        ("[[slow:1]] [[reply:]]", 1000, 0),
        ("[[slow:0]] [[reply:one two]]", 0, 1),
        ("[[slow:-1]] [[reply:one two]]", 0, 1),
        ("[[slow:nan]] [[reply:one two]]", 0, 1),
        ("[[reply:one two]]", 0, 1),
    ];
    for (message, over_ms, parts) in cases {
        let told = Told::default();
        let start = now();
        let answer = Directives
            .step(&step(StepKind::Message, message), &told)
            .await
            .unwrap();
        let took = now() - start;
        assert!(took.abs_diff(over_ms) <= parts + 1, "{message}: {took} ms");
        let texts = told.texts.into_inner().unwrap();
        assert_eq!(texts.len() as u64, parts, "{message}: {texts:?}");
        for ((_, one), (_, next)) in texts.iter().zip(texts.iter().skip(1)) {
            assert!(next.starts_with(one.as_str()) && next.len() > one.len());
        }
        if let Some((at, last)) = texts.last() {
            assert_eq!(last, text(&answer));
            assert!(*at <= start + over_ms, "{message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_told_in_a_bounded_number_of_parts() {
    let told = Told::default();
    let step = step(StepKind::Message, "[[slow:3600]] [[big:100000]]");
    let answer = Directives.step(&step, &told).await.unwrap();
    assert_eq!(answer.text.len(), 100_000);
    let texts = told.texts.into_inner().unwrap();
    assert!((300..=400).contains(&texts.len()), "{}", texts.len());
}

proptest::proptest! {
    #[test]
    fn no_message_makes_it_panic(message in "(\\[\\[|\\]\\]|[a-z:]|tool:x |slow:|big:|é|\\{|\\}|[0-9.]|\n){0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        for kind in [StepKind::Message, StepKind::Reply] {
            let answer = runtime.block_on(ask(&Directives, &step(kind, &message)));
            proptest::prop_assert!(answer.is_ok() || message.contains("[[fail"));
        }
    }
}
