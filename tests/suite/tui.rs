//! The loop's own parts: when frames are drawn, what keys arrive as.

use crosstalk::app::event::{MouseDid, What};
use crosstalk::app::key::KeyPress;
use crosstalk::tui::frames::{Frames, LEAST};
use crosstalk::tui::input;
use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn nothing_changed_nothing_is_drawn() {
    let mut frames = Frames::default();
    let now = Instant::now();
    assert_eq!(frames.due(now), None);
    frames.want();
    frames.drawn(now);
    assert_eq!(frames.due(now + LEAST), None);
}

#[test]
fn the_first_change_after_a_pause_is_drawn_at_once_and_a_burst_makes_one_frame() {
    let mut frames = Frames::default();
    let now = Instant::now();
    frames.want();
    assert!(frames.due(now).unwrap() <= now);
    frames.drawn(now);
    let soon = now + Duration::from_millis(3);
    for _ in 0..100 {
        frames.want();
    }
    assert_eq!(frames.due(soon), Some(now + LEAST));
    let later = now + Duration::from_secs(1);
    assert!(frames.due(later).unwrap() <= later);
}

#[test]
fn a_drawing_that_never_settles_stops() {
    let mut frames = Frames::default();
    let mut now = Instant::now();
    frames.want();
    let mut drawn = 0;
    while frames.due(now).is_some() {
        frames.drawn(now);
        frames.want_again();
        now += LEAST;
        drawn += 1;
        assert!(drawn < 20);
    }
    assert!(drawn > 1);
}

#[test]
fn keys_arrive_in_one_spelling() {
    let check = |code: KeyCode, modifiers: KeyModifiers, expect: &str| {
        let what = input::read(Event::Key(KeyEvent::new(code, modifiers)));
        let Some(What::Key(key)) = what else {
            panic!("{expect}: {what:?}")
        };
        assert_eq!(key, KeyPress::parse(expect).unwrap(), "{expect}");
    };
    let (none, shift, ctrl, alt) = (
        KeyModifiers::NONE,
        KeyModifiers::SHIFT,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
    );
    check(KeyCode::Char('j'), none, "j");
    check(KeyCode::Char('G'), shift, "G");
    check(KeyCode::Char('g'), shift, "G");
    check(KeyCode::Char('?'), shift, "?");
    check(KeyCode::BackTab, shift, "shift+tab");
    check(KeyCode::BackTab, none, "shift+tab");
    check(KeyCode::Char('p'), ctrl, "ctrl+p");
    check(KeyCode::Char('P'), ctrl | shift, "ctrl+p");
    check(KeyCode::Enter, alt, "alt+enter");
    check(KeyCode::Char('7'), ctrl, "ctrl+_");
    check(KeyCode::F(5), none, "f5");
}

#[test]
fn releases_and_strange_keys_mean_nothing() {
    let release = KeyEvent::new_with_kind(
        KeyCode::Char('j'),
        KeyModifiers::NONE,
        KeyEventKind::Release,
    );
    assert!(input::read(Event::Key(release)).is_none());
    let strange = KeyEvent::new(KeyCode::CapsLock, KeyModifiers::NONE);
    assert!(input::read(Event::Key(strange)).is_none());
    assert!(input::read(Event::FocusGained).is_none());
}

#[test]
fn the_mouse_clicks_drags_and_scrolls() {
    let check = |kind: MouseEventKind, expect: Option<MouseDid>| {
        let event = MouseEvent {
            kind,
            column: 7,
            row: 3,
            modifiers: KeyModifiers::NONE,
        };
        let did = match input::read(Event::Mouse(event)) {
            Some(What::Mouse(mouse)) => {
                assert_eq!((mouse.column, mouse.row), (7, 3));
                Some(mouse.did)
            }
            _ => None,
        };
        assert_eq!(did, expect, "{kind:?}");
    };
    check(
        MouseEventKind::Down(MouseButton::Left),
        Some(MouseDid::Press),
    );
    check(
        MouseEventKind::Drag(MouseButton::Left),
        Some(MouseDid::Drag),
    );
    check(
        MouseEventKind::Up(MouseButton::Left),
        Some(MouseDid::Release),
    );
    check(MouseEventKind::ScrollUp, Some(MouseDid::WheelUp));
    check(MouseEventKind::ScrollDown, Some(MouseDid::WheelDown));
    check(MouseEventKind::Moved, None);
    check(MouseEventKind::Down(MouseButton::Right), None);
}
