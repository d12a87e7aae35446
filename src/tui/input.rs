//! What the terminal reports, in the browser's own words.

use crate::app::event::{Mouse, MouseDid, What};
use crate::app::geometry::Size;
use crate::app::key::{Code, KeyPress};
use crate::text::Untrusted;
use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// `None` for what means nothing here: key releases, keys we do not know, mouse moves.
pub fn read(event: Event) -> Option<What> {
    match event {
        Event::Key(key) => press(key).map(What::Key),
        Event::Paste(text) => Some(What::Paste(Untrusted::new(text))),
        Event::Resize(columns, rows) => Some(What::Resize(Size { columns, rows })),
        Event::Mouse(mouse) => did(mouse).map(What::Mouse),
        Event::FocusGained | Event::FocusLost => None,
    }
}

fn press(key: KeyEvent) -> Option<KeyPress> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let mut shift = key.modifiers.contains(KeyModifiers::SHIFT);
    let code = match key.code {
        KeyCode::Char(c) => Code::Char(c),
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => {
            shift = true;
            Code::Tab
        }
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Delete => Code::Delete,
        KeyCode::Insert => Code::Insert,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        KeyCode::F(n) => Code::F(n),
        _ => return None,
    };
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    // What terminals send for Ctrl+_ arrives as Ctrl+7 or Ctrl+/ from some of them.
    let code = match code {
        Code::Char('7' | '/') if ctrl => Code::Char('_'),
        code => code,
    };
    Some(KeyPress::new(code, ctrl, alt, shift))
}

fn did(mouse: MouseEvent) -> Option<Mouse> {
    let did = match mouse.kind {
        MouseEventKind::Down(MouseButton::Left) => MouseDid::Press,
        MouseEventKind::Drag(MouseButton::Left) => MouseDid::Drag,
        MouseEventKind::Up(MouseButton::Left) => MouseDid::Release,
        MouseEventKind::ScrollUp => MouseDid::WheelUp,
        MouseEventKind::ScrollDown => MouseDid::WheelDown,
        _ => return None,
    };
    Some(Mouse {
        column: mouse.column,
        row: mouse.row,
        did,
    })
}
