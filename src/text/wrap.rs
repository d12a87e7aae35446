//! Greedy wrapping with an ASCII fast path.
//!
//! A line breaks at spaces, on both sides of a wide grapheme (scripts that have no spaces), and inside a word only when
//! the word alone is wider than a line. No line is empty unless the paragraph is, none ends in a space, and only spaces
//! are ever left out between lines. A line is wider than asked for only when one grapheme is.
//! Absent on purpose: hyphenation, hanging indents and styles; lines are byte ranges, so the caller keeps its own.

use super::width::graphemes;
use std::ops::Range;

/// Byte ranges of the lines that `text` (one paragraph, no `\n`) takes at `columns`; at least one, and in order.
/// No columns are taken as one.
pub fn wrap(text: &str, columns: usize) -> Vec<Range<usize>> {
    let columns = columns.max(1);
    let end = text.trim_end_matches(' ').len();
    if end == 0 {
        return std::iter::once(0..0).collect();
    }
    let text = &text[..end];
    if text.is_ascii() {
        wrap_ascii(text.as_bytes(), columns)
    } else {
        wrap_graphemes(text, columns)
    }
}

/// Each byte is a column, so a line looks only at the bytes that could be on it.
fn wrap_ascii(text: &[u8], columns: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::with_capacity(text.len() / columns + 1);
    let mut start = 0_usize;
    loop {
        let limit = start.saturating_add(columns);
        if limit >= text.len() {
            lines.push(start..text.len());
            return lines;
        }
        match text[start..=limit].iter().rposition(|&byte| byte == b' ') {
            Some(space) => {
                let before = &text[start..start + space];
                // Nothing but indentation before the word: the word takes the line for itself.
                if let Some(last) = before.iter().rposition(|&byte| byte != b' ') {
                    lines.push(start..start + last + 1);
                }
                start += space + 1;
                start += text[start..]
                    .iter()
                    .take_while(|&&byte| byte == b' ')
                    .count();
            }
            None => {
                lines.push(start..limit);
                start = limit;
            }
        }
    }
}

/// Where a line may end, and where the next one starts if it does.
struct Break {
    end: usize,
    next: usize,
    column: usize,
}

fn wrap_graphemes(text: &str, columns: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    // Columns count from the start of the text, so that moving a word to the next line costs nothing.
    let (mut start, mut start_column) = (0, 0);
    let (mut at, mut column) = (0, 0);
    let mut content = 0;
    let mut last: Option<Break> = None;
    let mut before: (&str, usize) = (" ", 1);
    for (piece, wide) in graphemes(text) {
        if piece != " " {
            let opportunity =
                before.0 == " " || ((wide == 2 || before.1 == 2) && may_part(before.0, piece));
            if opportunity && at > start {
                last = Some(Break {
                    end: content,
                    next: at,
                    column,
                });
            }
            while column + wide - start_column > columns && at > start {
                let line = last.take().unwrap_or(Break {
                    end: at,
                    next: at,
                    column,
                });
                if line.end > start {
                    lines.push(start..line.end);
                }
                (start, start_column) = (line.next, line.column);
            }
            content = at + piece.len();
        }
        at += piece.len();
        column += wide;
        before = (piece, wide);
    }
    lines.push(start..content);
    lines
}

/// The few marks that scripts without spaces keep away from the edge of a line.
fn may_part(before: &str, after: &str) -> bool {
    const NOT_LAST: &str = "（［｛〈《「『【〔〖｢“‘(<[{";
    const NOT_FIRST: &str = "）］｝〉》」』】〕〗｣”’、。，．：；！？｡､・ーぁぃぅぇぉっゃゅょァィゥェォッャュョ々…)]}>,.:;!?%\u{a0}";
    let has = |set: &str, piece: &str| piece.chars().next().is_some_and(|c| set.contains(c));
    !has(NOT_LAST, before) && !has(NOT_FIRST, after) && before != "\u{a0}"
}
