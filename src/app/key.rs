//! A key press in our own words, and how it is written in the key file.

use crate::clean_format;
use crate::text::{Clean, Untrusted};

/// Which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    Char(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Delete,
    Insert,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    F(u8),
}

/// A key with what was held. Shift counts only where the character does not tell it (`Tab`, arrows, `Enter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPress {
    pub code: Code,
    pub ctrl: bool,
    pub alt: bool,
    pub shift: bool,
}

impl KeyPress {
    /// A key with nothing held.
    pub const fn plain(code: Code) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    /// A key in its one spelling: the character tells Shift, letters with Ctrl are lower case.
    pub fn new(code: Code, ctrl: bool, alt: bool, shift: bool) -> Self {
        match code {
            Code::Char(c) => Self {
                code: Code::Char(if ctrl {
                    c.to_ascii_lowercase()
                } else if shift {
                    // Terminals that report Shift apart may give the lower-case letter with it.
                    let mut upper = c.to_uppercase();
                    match (upper.next(), upper.next()) {
                        (Some(one), None) => one,
                        _ => c,
                    }
                } else {
                    c
                }),
                ctrl,
                alt,
                shift: false,
            },
            _ => Self {
                code,
                ctrl,
                alt,
                shift,
            },
        }
    }

    /// A character that is typed rather than a command.
    pub fn typed(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// Reads `ctrl+p`, `alt+enter`, `G`, `space`, `<`, `f5`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, Clean> {
        let bad = || clean_format!("{} is no key", Untrusted::new(text).clean());
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        let mut rest = text;
        // A lone `+` is the key itself.
        while let Some((word, tail)) = rest.split_once('+').filter(|(_, tail)| !tail.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "ctrl" => ctrl = true,
                "alt" => alt = true,
                "shift" => shift = true,
                _ => return Err(bad()),
            }
            rest = tail;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) => Code::Char(c),
            _ => named(&rest.to_ascii_lowercase()).ok_or_else(bad)?,
        };
        Ok(Self::new(code, ctrl, alt, shift))
    }

    /// How the key is shown: `Ctrl+P`, `Esc`, `⏎`, `G`.
    pub fn shown(self) -> Clean {
        let mut shown = Clean::empty();
        if self.ctrl {
            shown.push(&Clean::fixed("Ctrl+"));
        }
        if self.alt {
            shown.push(&Clean::fixed("Alt+"));
        }
        if self.shift {
            shown.push(&Clean::fixed("Shift+"));
        }
        let name = match self.code {
            Code::Char(' ') => Clean::fixed("Space"),
            Code::Char(c) if self.ctrl => clean_format!("{}", c.to_ascii_uppercase()),
            Code::Char(c) => Untrusted::new(c.to_string()).clean(),
            Code::Enter => Clean::fixed("Enter"),
            Code::Esc => Clean::fixed("Esc"),
            Code::Tab => Clean::fixed("Tab"),
            Code::Backspace => Clean::fixed("Backspace"),
            Code::Delete => Clean::fixed("Del"),
            Code::Insert => Clean::fixed("Ins"),
            Code::Left => Clean::fixed("←"),
            Code::Right => Clean::fixed("→"),
            Code::Up => Clean::fixed("↑"),
            Code::Down => Clean::fixed("↓"),
            Code::Home => Clean::fixed("Home"),
            Code::End => Clean::fixed("End"),
            Code::PageUp => Clean::fixed("PgUp"),
            Code::PageDown => Clean::fixed("PgDn"),
            Code::F(n) => clean_format!("F{}", n),
        };
        shown.push(&name);
        shown
    }
}

fn named(word: &str) -> Option<Code> {
    Some(match word {
        "enter" => Code::Enter,
        "esc" => Code::Esc,
        "tab" => Code::Tab,
        "space" => Code::Char(' '),
        "backspace" => Code::Backspace,
        "del" | "delete" => Code::Delete,
        "ins" | "insert" => Code::Insert,
        "left" => Code::Left,
        "right" => Code::Right,
        "up" => Code::Up,
        "down" => Code::Down,
        "home" => Code::Home,
        "end" => Code::End,
        "pgup" | "pageup" => Code::PageUp,
        "pgdn" | "pagedown" => Code::PageDown,
        _ => {
            let number = word.strip_prefix('f')?.parse().ok()?;
            (1..=24).contains(&number).then_some(Code::F(number))?
        }
    })
}
