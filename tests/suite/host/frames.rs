use crosstalk::protocol::frames::{Frame, read_call, write_call};
use crosstalk::protocol::methods::{
    Call, Caller, Code, HistoryRequest, HistorySpan, ListRequest, METHODS, Request,
};
use proptest::prelude::*;
use serde_json::value::RawValue;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn a_call_survives_the_wire_with_its_caller() {
    let requests = [
        Request::Info {},
        Request::List(ListRequest {
            search: Some("x\u{1b}[31m\"".into()),
            limit: Some(3),
            ..ListRequest::default()
        }),
        Request::Detail { key: "main".into() },
        Request::History(HistoryRequest {
            key: "main".into(),
            span: HistorySpan::Before(7),
            limit: Some(2),
        }),
        Request::History(HistoryRequest {
            key: "main".into(),
            span: HistorySpan::Tail,
            limit: None,
        }),
        Request::Tool {
            name: "sessions_list".into(),
            arguments: serde_json::json!({"as": "mine", "limit": 1.5}),
            call_id: Some("c".into()),
        },
        Request::Send {
            key: "main".into(),
            message: "a\u{0}b\n".into(),
            run_id: "r".into(),
        },
        Request::Wait {
            run_id: "r".into(),
            timeout_ms: u64::MAX,
        },
        Request::Choices {},
        Request::Runs {},
        Request::PlayDemo {},
    ];
    for request in requests {
        for session in [None, Some("agent:main:main".into())] {
            let call = Call {
                caller: Caller { session },
                request: request.clone(),
            };
            let (method, params) = write_call(&call).unwrap();
            assert!(METHODS.contains(&method.as_str()), "{method} is not listed");
            let text = Frame::request("1", &method, &params).unwrap().into_text();
            let Ok(Frame::Req { id, method, params }) = Frame::parse(&text) else {
                panic!("{text}");
            };
            assert_eq!(id, "1");
            assert_eq!(read_call(&method, params.as_deref()), Ok(call));
        }
    }
}

#[test]
fn every_listed_method_is_one() {
    for method in METHODS {
        if let Err(failure) = read_call(method, Some(&raw("{}"))) {
            assert_eq!(failure.code, Code::InvalidRequest, "{method}");
            let text = failure.message.raw();
            assert!(!text.contains("unknown variant"), "{method}: {text}");
        }
    }
}

#[test]
fn what_cannot_be_read_has_a_code() {
    let check = |method: &str, params: Option<&str>, expect: Code| {
        let params = params.map(raw);
        let failure = read_call(method, params.as_deref()).unwrap_err();
        assert_eq!(failure.code, expect, "{method} {params:?}");
    };
    check("sessions.list", None, Code::UnknownMethod);
    check("crosstalk.\"},{\"", None, Code::UnknownMethod);
    check("crosstalk.detail", None, Code::InvalidRequest);
    check("crosstalk.detail", Some("[]"), Code::InvalidRequest);
    check(
        "crosstalk.detail",
        Some(r#"{"key":1}"#),
        Code::InvalidRequest,
    );
    check(
        "crosstalk.detail",
        Some(r#"{"key":"main","as":7}"#),
        Code::InvalidRequest,
    );
}

#[test]
fn frames_that_are_none() {
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"type":"req"}"#,
        r#"{"type":"req","id":"1"}"#,
        r#"{"type":"res","id":"1","ok":false}"#,
        r#"{"type":"event"}"#,
        r#"{"type":"what"}"#,
    ] {
        assert!(Frame::parse(text).is_err(), "{text}");
    }
    let error = Frame::parse(r#"{"type":"req","id":"9"}"#).unwrap_err();
    assert_eq!(error.id, "9", "an error can be answered to its request");
}

proptest! {
    #[test]
    fn no_text_makes_a_frame_panic(text in "\\PC*") {
        let _ = Frame::parse(&text);
    }
}
