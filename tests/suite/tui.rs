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

/// The program in a terminal of its own: whatever way it is left, the terminal is as it was.
#[cfg(unix)]
mod in_a_terminal {
    use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{Read, Write};
    use std::num::NonZero;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    struct Terminal {
        child: Box<dyn Child + Send + Sync>,
        master: Box<dyn MasterPty + Send>,
        writer: Box<dyn Write + Send>,
        screen: Arc<Mutex<vt100::Parser>>,
        _home: tempfile::TempDir,
    }

    impl Terminal {
        fn run(program: &str, args: &[&str]) -> Self {
            let home = tempfile::tempdir().unwrap();
            let size = PtySize {
                rows: 30,
                cols: 100,
                pixel_width: 0,
                pixel_height: 0,
            };
            let pair = native_pty_system().openpty(size).unwrap();
            let mut command = CommandBuilder::new(program);
            command.args(args);
            command.env_clear();
            for name in ["PATH", "LD_LIBRARY_PATH"] {
                if let Ok(value) = std::env::var(name) {
                    command.env(name, value);
                }
            }
            command.env("HOME", home.path());
            command.env("TERM", "xterm-256color");
            command.env("LANG", "C.UTF-8");
            command.env("PS1", "prompt> ");
            let child = pair.slave.spawn_command(command).unwrap();
            drop(pair.slave);
            let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(30), cells(100), 0)));
            let mut reader = pair.master.try_clone_reader().unwrap();
            let writer = pair.master.take_writer().unwrap();
            let seen = Arc::clone(&screen);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count) = reader.read(&mut buffer) {
                    if count == 0 {
                        break;
                    }
                    seen.lock().unwrap().process(&buffer[..count]);
                }
            });
            Self {
                child,
                master: pair.master,
                writer,
                screen,
                _home: home,
            }
        }

        fn crosstalk() -> Self {
            let terminal = Self::run(env!("CARGO_BIN_EXE_crosstalk"), &["demo"]);
            terminal.until("the browser", |screen| {
                screen.alternate_screen() && screen.contents().contains("Sessions")
            });
            terminal
        }

        /// Waits until the screen is as wanted.
        fn until(&self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
            let begun = Instant::now();
            loop {
                let parser = self.screen.lock().unwrap();
                if is(parser.screen()) {
                    return;
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "never saw {what}:\n{}",
                    parser.screen().contents()
                );
                drop(parser);
                std::thread::sleep(Duration::from_millis(10));
            }
        }

        fn send(&mut self, keys: &str) {
            self.writer.write_all(keys.as_bytes()).unwrap();
            self.writer.flush().unwrap();
        }

        fn pid(&self) -> Pid {
            let id = self.child.process_id().unwrap();
            Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
        }

        /// Waits for the end; the terminal must be as it was.
        fn end(mut self) -> u32 {
            let code = self.child.wait().unwrap().exit_code();
            self.until("a restored terminal", is_restored);
            code
        }
    }

    fn cells(count: u16) -> NonZero<u16> {
        NonZero::new(count).unwrap()
    }

    fn is_restored(screen: &vt100::Screen) -> bool {
        !screen.alternate_screen()
            && !screen.bracketed_paste()
            && !screen.hide_cursor()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    }

    #[test]
    fn quitting_restores_it() {
        let mut terminal = Terminal::crosstalk();
        // Asks, when something runs: the cast may be at work.
        terminal.send("\x03\x03");
        assert_eq!(terminal.end(), 0);
    }

    #[test]
    fn signals_restore_it_and_end_with_their_number() {
        for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
            let terminal = Terminal::crosstalk();
            kill_process(terminal.pid(), signal).unwrap();
            assert_eq!(terminal.end(), code, "{signal:?}");
        }
    }

    #[test]
    fn a_panic_restores_it_and_is_said() {
        let this = std::env::current_exe().unwrap();
        let args = [
            "--exact",
            "tui::in_a_terminal::panics",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ];
        let terminal = Terminal::run(this.to_str().unwrap(), &args);
        terminal.until("the panic", |screen| {
            screen.contents().contains("on purpose")
        });
        assert_ne!(terminal.end(), 0);
    }

    #[test]
    #[ignore = "run by the test above, in a terminal of its own"]
    fn panics() {
        crosstalk::tui::terminal::install_panic_hook();
        let _screen = crosstalk::tui::terminal::Screen::enter(true).unwrap();
        panic!("on purpose");
    }

    #[test]
    fn it_goes_to_the_background_and_comes_back() {
        if !Path::new("/bin/bash").exists() {
            return;
        }
        let mut terminal = Terminal::run("/bin/bash", &["--norc", "--noprofile", "-i"]);
        terminal.until("a prompt", |screen| screen.contents().contains("prompt>"));
        terminal.send(&format!("{} demo\n", env!("CARGO_BIN_EXE_crosstalk")));
        let is_browser = |screen: &vt100::Screen| {
            screen.alternate_screen() && screen.contents().contains("Sessions")
        };
        for _ in 0..2 {
            terminal.until("the browser", is_browser);
            terminal.send("\x1a");
            // The shell has bracketed paste on for itself.
            terminal.until("the shell", |screen| {
                !screen.alternate_screen()
                    && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
                    && screen.contents().contains("Stopped")
            });
            terminal.send("clear; fg\n");
        }
        terminal.until("the browser again", is_browser);
        terminal.send("\x03\x03");
        terminal.until("the shell at last", |screen| !screen.alternate_screen());
        terminal.send("exit\n");
        terminal.child.wait().unwrap();
    }

    #[test]
    fn it_follows_the_size() {
        let mut terminal = Terminal::crosstalk();
        let resize = |terminal: &Terminal, rows, cols| {
            let size = PtySize {
                rows,
                cols,
                pixel_width: 0,
                pixel_height: 0,
            };
            terminal
                .screen
                .lock()
                .unwrap()
                .screen_mut()
                .set_size(cells(rows), cells(cols));
            terminal.master.resize(size).unwrap();
        };
        resize(&terminal, 3, 10);
        terminal.until("what is wrong", |screen| screen.contents().contains("too"));
        resize(&terminal, 24, 80);
        terminal.until("the browser", |screen| {
            screen.contents().contains("Sessions")
        });
        terminal.send("\x03\x03");
        assert_eq!(terminal.end(), 0);
    }

    #[test]
    fn without_a_terminal_there_is_one_line_and_exit_6() {
        let home = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_crosstalk"))
            .arg("demo")
            .env("HOME", home.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(6));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(said.contains("terminal"), "{said}");
    }
}
