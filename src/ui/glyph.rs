//! Every symbol the screen uses, each one column wide, and the ASCII that stands for it.
//!
//! Views write these; where ASCII is asked for, the finished buffer is [`transcribe`]d, so no view has to know. Words
//! of agents are left as they are. Absent on purpose: colours.

use ratatui::buffer::Buffer;

pub const MAIN: &str = "◐";
pub const GROUP: &str = "●";
pub const CRON: &str = "◷";
pub const HOOK: &str = "↯";
pub const NODE: &str = "⬡";
pub const OTHER: &str = "○";
pub const OK: &str = "✓";
pub const FAILED: &str = "✗";
pub const STOPPED: &str = "⊘";
pub const LATE: &str = "⧗";
pub const ARCHIVED: &str = "▫";
pub const LIVE: &str = "●";
pub const RUNNING: &str = "▶";
pub const OFFLINE: &str = "○";
pub const BRANCH: &str = "├ ";
pub const LAST: &str = "└ ";
pub const TRUNK: &str = "│ ";
pub const TOOL: &str = "▸";
pub const RESULT: &str = "↳";
pub const REASONING: &str = "✻";
pub const BETWEEN: &str = "⇄";
pub const CURSOR_BAR: &str = "▌";
pub const PEER_BAR: &str = "┃";
pub const CODE_BAR: &str = "▎";
pub const QUOTE_BAR: &str = "│";
pub const CARET: &str = "▏";
pub const BULLET: &str = "•";
pub const TODO: &str = "☐";
pub const DONE: &str = "☑";
pub const DOWN: &str = "↓";
pub const UP: &str = "↑";
pub const RULE: &str = "─";
pub const PREVIOUS: &str = "‹";
pub const NEXT: &str = "›";
pub const MORE: &str = "…";
pub const FOLDED: &str = "▸";
pub const UNREAD: &str = "•";
pub const SCROLL: &str = "▐";
pub const ATTACHED: &str = "⊞";
pub const WARN: &str = "!";
pub const TIMES: &str = "×";

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A frame of the spinner; moves with a counter that the state keeps.
pub fn spinner(step: usize) -> &'static str {
    SPINNER[step % SPINNER.len()]
}

/// What stands for a symbol in ASCII; `None` leaves it.
fn ascii(symbol: &str) -> Option<&'static str> {
    Some(match symbol {
        "◐" => "@",
        "●" => "*",
        "◷" => "%",
        "↯" => "~",
        "⬡" => "^",
        "○" => "o",
        "✓" => "+",
        "✗" => "x",
        "⊘" => "x",
        "⧗" => "x",
        "▫" => "-",
        "├" | "└" => "`",
        "│" | "┃" | "▎" | "▌" | "▏" | "▐" | "┊" => "|",
        "╭" | "╮" | "╰" | "╯" | "┬" | "┴" | "┼" | "┌" | "┐" | "┘" => "+",
        "─" | "━" | "—" | "–" => "-",
        "▸" | "›" | "→" | "▶" => ">",
        "‹" | "◀" | "←" => "<",
        "↳" => "=",
        "✻" => "*",
        "⇄" => "=",
        "•" => "*",
        "☐" => "-",
        "☑" => "+",
        "↓" => "v",
        "↑" => "^",
        "…" => "~",
        "⊞" => "+",
        "×" => "x",
        "⏎" => "/",
        "·" => "-",
        "⠋" | "⠼" | "⠇" => "|",
        "⠙" | "⠴" | "⠏" => "/",
        "⠹" | "⠦" => "-",
        "⠸" | "⠧" => "\\",
        _ => return None,
    })
}

/// Replaces every known symbol of a finished buffer.
pub fn transcribe(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if let Some(plain) = ascii(cell.symbol()) {
            cell.set_symbol(plain);
        }
    }
}
