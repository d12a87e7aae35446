use super::*;
use crosstalk::config::AttachmentLimits;
use crosstalk::engine::attachments::{self, REDACTED, check, remove, switched_off, write};
use std::fs;
use std::path::Path;

fn limits() -> AttachmentLimits {
    Settings::default().attachments
}

fn code(list: Value, limits: &AttachmentLimits) -> String {
    match check(&list, limits) {
        Ok(_) => "ok".into(),
        Err(text) => text.split(' ').next().unwrap().to_owned(),
    }
}

#[test]
fn ac_103_on_by_default_and_a_switch() {
    let list = json!([{ "name": "a.txt", "content": "hi" }]);
    assert_eq!(switched_off(Some(&list), &limits()), None);
    assert_eq!(code(list.clone(), &limits()), "ok");
    let off = AttachmentLimits {
        enabled: false,
        ..limits()
    };
    let text = switched_off(Some(&list), &off).unwrap();
    assert!(text.contains("tools.sessions_spawn.attachments.enabled"));
    assert_eq!(check(&list, &off), Err(text));
    assert_eq!(switched_off(Some(&json!([])), &off), None);
    assert_eq!(switched_off(None, &off), None);
    assert_eq!(code(json!([]), &off), "ok");
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
#[cfg(unix)]
fn ac_104_receipt_files_and_manifest() {
    let place = tempfile::tempdir().unwrap();
    let list = json!([
        { "name": " b.txt ", "content": "hello" },
        { "name": "a.bin", "content": "AAH/", "encoding": "base64", "mimeType": "x/y" },
        { "name": "empty", "content": "" },
    ]);
    let checked = check(&list, &limits()).unwrap();
    let written = write(place.path(), "u-1", &checked).unwrap();
    let dir = place.path().join(".openclaw/attachments/u-1");
    assert_eq!(written.dir, dir.canonicalize().unwrap());
    assert_eq!(fs::read(dir.join("a.bin")).unwrap(), [0, 1, 255]);
    assert_eq!(fs::read(dir.join("b.txt")).unwrap(), b"hello");
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("b.txt")), 0o600);
    assert_eq!(mode(&dir.join(".manifest.json")), 0o600);
    let receipt = json!(written.receipt);
    assert_eq!(
        receipt,
        json!({
            "count": 3,
            "totalBytes": 8,
            "files": [
                { "name": "b.txt", "bytes": 5,
                  "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" },
                { "name": "a.bin", "bytes": 3,
                  "sha256": "26a66b061e8f48f39927c312f25293959729eee95978e2892d49d3512a5cc092" },
                { "name": "empty", "bytes": 0,
                  "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
            ],
            "relDir": ".openclaw/attachments/u-1",
        })
    );
    let manifest = fs::read_to_string(dir.join(".manifest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&manifest).unwrap(), receipt);
    // The same directory is never written twice.
    let again = write(place.path(), "u-1", &checked).unwrap_err();
    assert!(again.starts_with("attachments_materialization_failed"));
    assert!(dir.join("b.txt").exists());
}

#[test]
fn ac_105_names() {
    let named = |name: Value| code(json!([{ "name": name, "content": "x" }]), &limits());
    let long = "x".repeat(256);
    for name in [
        "a/b",
        "a\\b",
        "..",
        ".",
        " .manifest.json ",
        ".Manifest.JSON",
        "a\tb",
        "",
        "  ",
        "a\0b",
        "\u{7f}",
        &long,
    ] {
        assert_eq!(named(json!(name)), "attachments_invalid_name", "{name:?}");
    }
    assert_eq!(named(json!(7)), "attachments_invalid_name");
    assert_eq!(named(json!("x".repeat(255))), "ok");
    assert_eq!(named(json!("...")), "ok");
    let two = |a: &str, b: &str| {
        code(
            json!([{ "name": a, "content": "" }, { "name": b, "content": "" }]),
            &limits(),
        )
    };
    assert_eq!(two("x", "x"), "attachments_duplicate_name");
    assert_eq!(two("x", " X"), "attachments_duplicate_name");
    assert_eq!(two("x", "y"), "ok");
}

#[test]
fn ac_105_nothing_is_left_behind() {
    let place = tempfile::tempdir().unwrap();
    // Two names that no check sees, but the file system does: the second write fails.
    let checked = check(&json!([{ "name": "x", "content": "1" }]), &limits()).unwrap();
    let twice = [checked.clone(), checked].concat();
    let error = write(place.path(), "u-1", &twice).unwrap_err();
    assert!(error.starts_with("attachments_materialization_failed"));
    assert_eq!(
        fs::read_dir(place.path().join(".openclaw/attachments"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn ac_106_base64() {
    let tight = AttachmentLimits {
        max_file_bytes: 3,
        ..limits()
    };
    let base64 = |content: &str, limits: &AttachmentLimits| {
        code(
            json!([{ "name": "x", "content": content, "encoding": "base64" }]),
            limits,
        )
    };
    assert_eq!(base64("aGVs\r\n bG8=\n", &limits()), "ok");
    assert_eq!(base64("YR==", &limits()), "ok");
    for bad in [
        "YQ", "YQ=", "YQ===", "-_8=", "", " ", "Y=Q=", "YQ==YQ==", "Yé==",
    ] {
        assert_eq!(
            base64(bad, &limits()),
            "attachments_invalid_base64_or_too_large",
            "{bad:?}"
        );
    }
    assert_eq!(base64("AAAA", &tight), "ok");
    assert_eq!(
        base64("AAAAAA==", &tight),
        "attachments_file_bytes_exceeded"
    );
    assert_eq!(
        base64(&"A".repeat(400), &tight),
        "attachments_invalid_base64_or_too_large"
    );
    let encoding = |word: &str| {
        code(
            json!([{ "name": "x", "content": "x", "encoding": word }]),
            &limits(),
        )
    };
    assert_eq!(encoding("utf16"), "attachments_invalid_encoding");
    assert_eq!(encoding(" UTF8 "), "ok");
}

#[test]
fn ac_107_exactly_the_limits() {
    let small = AttachmentLimits {
        max_files: 3,
        max_file_bytes: 4,
        max_total_bytes: 10,
        ..limits()
    };
    let sizes = |sizes: &[usize]| {
        let list: Vec<Value> = sizes
            .iter()
            .enumerate()
            .map(|(at, size)| json!({ "name": format!("f{at}"), "content": "x".repeat(*size) }))
            .collect();
        check(&json!(list), &small).map(|checked| checked.len())
    };
    assert_eq!(sizes(&[4, 4, 2]), Ok(3));
    let error = sizes(&[1, 1, 1, 1]).unwrap_err();
    assert_eq!(error, "attachments_file_count_exceeded (files=4, max=3)");
    let error = sizes(&[5]).unwrap_err();
    assert!(
        error.starts_with("attachments_file_bytes_exceeded"),
        "{error}"
    );
    assert!(error.contains('5') && error.contains('4'));
    let error = sizes(&[4, 4, 3]).unwrap_err();
    assert!(
        error.starts_with("attachments_total_bytes_exceeded"),
        "{error}"
    );
    assert!(error.contains("11") && error.contains("10"));
    // The argument list itself is at most 50 long, whatever is configured.
    let wide = AttachmentLimits {
        max_files: 1000,
        ..limits()
    };
    let many = |count: usize| {
        let list: Vec<Value> = (0..count)
            .map(|at| json!({ "name": at.to_string(), "content": "" }))
            .collect();
        code(json!(list), &wide)
    };
    assert_eq!(many(50), "ok");
    assert_eq!(many(51), "attachments_file_count_exceeded");
}

#[test]
#[cfg(unix)]
fn ac_110_links_that_lead_out() {
    use std::os::unix::fs::symlink;
    let checked = check(&json!([{ "name": "x", "content": "1" }]), &limits()).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    symlink(outside.path(), place.path().join(".openclaw")).unwrap();
    let error = write(place.path(), "u-1", &checked).unwrap_err();
    assert!(error.contains("leads out of the workspace"), "{error}");
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join(".openclaw")).unwrap();
    symlink(outside.path(), place.path().join(".openclaw/attachments")).unwrap();
    write(place.path(), "u-1", &checked).unwrap_err();
    // Into thin air.
    let place = tempfile::tempdir().unwrap();
    symlink(
        outside.path().join("nowhere"),
        place.path().join(".openclaw"),
    )
    .unwrap();
    write(place.path(), "u-1", &checked).unwrap_err();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    // A link that stays inside is fine.
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("real")).unwrap();
    symlink(place.path().join("real"), place.path().join(".openclaw")).unwrap();
    write(place.path(), "u-1", &checked).unwrap();
}

#[test]
#[cfg(unix)]
fn t_31_removal_stays_inside_its_root() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "1").unwrap();
    let checked = check(&json!([{ "name": "x", "content": "1" }]), &limits()).unwrap();
    let written = write(place.path(), "u-1", &checked).unwrap();
    remove(outside.path(), &written.root).unwrap_err();
    remove(&written.root, &written.root).unwrap_err();
    remove(&written.root.join("u-1/../.."), &written.root).unwrap_err();
    let link = written.root.join("u-2");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    remove(&link, &written.root).unwrap_err();
    assert!(outside.path().join("kept").exists());
    remove(&written.dir, &written.root).unwrap();
    assert!(!written.dir.exists());
    remove(&written.dir, &written.root).unwrap();
}

#[test]
fn t_25_mount_path() {
    let hint = |path: &str| attachments::mount_path(Some(&json!({ "mountPath": path })));
    assert_eq!(hint(" /data/in-1_2:x.y "), Some("/data/in-1_2:x.y".into()));
    for path in ["", "a b", "a\nb", "$HOME", "ü"] {
        assert_eq!(hint(path), None, "{path:?}");
    }
    assert_eq!(attachments::mount_path(None), None);
}

#[test]
fn t_30_redaction() {
    let spawn = |name: &str, member: &str| {
        let mut message = json!({ "role": "assistant", "content": [
            { "type": "text", "text": "look" },
            { "type": "toolCall", "id": "1", "name": name, member: {
                "task": "t", "attachments": [{ "name": "n", "content": "SECRET" }, { "name": "m" }] } },
        ] });
        let found = attachments::redact_message(&mut message);
        (found, message)
    };
    for (name, member) in [
        ("sessions_spawn", "arguments"),
        (" Sessions_Spawn ", "input"),
    ] {
        let (found, message) = spawn(name, member);
        assert!(found);
        assert!(!message.to_string().contains("SECRET"), "{message}");
        let arguments = &message["content"][1][member];
        assert_eq!(
            arguments["attachments"][0],
            json!({ "name": "n", "content": REDACTED })
        );
        assert_eq!(arguments["attachments"][1], json!({ "name": "m" }));
        assert_eq!(arguments["task"], "t");
    }
    let (found, message) = spawn("sessions_send", "arguments");
    assert!(!found && message.to_string().contains("SECRET"));
    // Arguments handed over as text.
    let mut text =
        json!("{\"task\":\"t\",\"attachments\":[{\"name\":\"n\",\"content\":\"SECRET\"}]}");
    assert!(attachments::redact(&mut text));
    assert!(!text.to_string().contains("SECRET") && text.to_string().contains("task"));
    // Content is not in what debugging prints.
    let checked = check(&json!([{ "name": "n", "content": "SECRET" }]), &limits()).unwrap();
    assert!(!format!("{checked:?}").contains("SECRET"));
}
