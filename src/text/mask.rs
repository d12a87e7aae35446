//! Masking of secrets (H-50 to H-54), in time linear in the text.
//!
//! Every rule looks at the text as it came, and what they find is masked together; so no rule can hide a secret from
//! another. The built-in rules recognise what stands *before* a secret by an expression with short matches, and read the
//! secret itself by hand: searching on behind each match then costs nothing twice, whatever the text.
//! Absent on purpose: a switch to turn masking off (H-50), and any knowledge of messages, blocks or cutting (H-53 is the
//! caller's order of calls).

use regex::{Match, Regex, RegexBuilder};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// A token of fewer characters is masked whole (H-52).
const SHORTEST_SHOWN: usize = 18;
const SHOWN_FIRST: usize = 6;
const SHOWN_LAST: usize = 4;
const WHOLE: &str = "***";
const GAP: char = '…';
const BLOCK_GAP: &str = "…redacted…";
/// What is left of a token beside a PEM block is worth masking from here on.
const SHORTEST_REST: usize = 8;
/// Lines of a PEM block that lacks its end are recognised from here on.
const SHORTEST_KEY_LINE: usize = 16;

/// What is masked: the built-in set, or the configured patterns that replace it (H-50).
#[derive(Clone, Debug, Default)]
pub struct Masker {
    /// `None` is the built-in set.
    custom: Option<Arc<[Regex]>>,
}

impl Masker {
    /// The built-in set (H-51).
    pub fn builtin() -> Self {
        Self::default()
    }

    /// The configured set (C-35): plain expressions, which ignore case, or `/…/flags` with the flags `i`, `m`, `s` (`g`
    /// and `u` are implied). An expression masks its last capture group that took part, or its whole match. Nothing
    /// configured (only blank expressions) is the built-in set.
    ///
    /// # Errors
    /// The text of an expression that the linear-time engine refuses (AM-11), with the reason.
    pub fn custom(patterns: &[String]) -> Result<Self, String> {
        let patterns = patterns.iter().filter(|pattern| !pattern.trim().is_empty());
        let rules = patterns
            .map(|pattern| compile(pattern))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            custom: (!rules.is_empty()).then(|| rules.into()),
        })
    }

    /// The text with secrets masked, or `None` when there is none in it. A mask is not masked again.
    pub fn mask(&self, text: &str) -> Option<String> {
        let mut found = Found::default();
        match &self.custom {
            Some(rules) => rules
                .iter()
                .for_each(|rule| last_groups(rule, text, &mut found.tokens)),
            None => BUILTIN.find(text, &mut found),
        }
        found.apply(text)
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let refuse = |reason: &str| format!("`{pattern}`: {reason}");
    let flagged = pattern
        .strip_prefix('/')
        .and_then(|rest| rest.rsplit_once('/'));
    // As in the reference, what does not end in flags is a plain expression that happens to begin with a slash.
    let flagged = flagged.filter(|(body, flags)| {
        !body.is_empty() && flags.bytes().all(|flag| b"gimsuy".contains(&flag))
    });
    let (body, flags) = flagged.unwrap_or((pattern, "i"));
    if flags.contains('y') {
        return Err(refuse("the flag `y` is not supported"));
    }
    RegexBuilder::new(body)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => refuse("the expression is too big"),
            // The message shows the expression over several lines; its last one is the reason.
            error => {
                let message = error.to_string();
                let reason = message.lines().last().unwrap_or_default().trim();
                refuse(reason.strip_prefix("error: ").unwrap_or(reason))
            }
        })
}

/// What of each match is to be masked: the last group that took part and is not empty, or the whole.
fn last_groups(rule: &Regex, text: &str, tokens: &mut Vec<Range<usize>>) {
    if rule.captures_len() == 1 {
        tokens.extend(rule.find_iter(text).map(|whole| whole.range()));
        return;
    }
    for captures in rule.captures_iter(text) {
        let taken = captures
            .iter()
            .flatten()
            .map(|group| group.range())
            .filter(|group| !group.is_empty());
        tokens.extend(taken.last());
    }
}

#[derive(Default)]
struct Found {
    tokens: Vec<Range<usize>>,
    /// In order and apart from each other.
    blocks: Vec<Block>,
}

/// A PEM private key.
struct Block {
    whole: Range<usize>,
    /// Between its first and its last line.
    body: Range<usize>,
}

impl Found {
    fn apply(self, text: &str) -> Option<String> {
        let tokens = outside(merge(self.tokens), &self.blocks);
        let tokens = tokens
            .into_iter()
            .map(|token| (mask_token(&text[token.clone()]), token));
        let bodies = self
            .blocks
            .into_iter()
            .map(|block| (mask_body(&text[block.body.clone()]), block.body));
        let mut masks: Vec<_> = tokens
            .chain(bodies)
            .filter_map(|(mask, range)| Some((range, mask?)))
            .collect();
        if masks.is_empty() {
            return None;
        }
        masks.sort_unstable_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (range, mask) in masks {
            out.push_str(&text[copied..range.start]);
            out.push_str(&mask);
            copied = range.end;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }
}

/// In order, with those that overlap or touch made one.
fn merge(mut tokens: Vec<Range<usize>>) -> Vec<Range<usize>> {
    tokens.retain(|token| !token.is_empty());
    tokens.sort_unstable_by_key(|token| token.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match merged.last_mut() {
            Some(last) if token.start <= last.end => last.end = last.end.max(token.end),
            _ => merged.push(token),
        }
    }
    merged
}

/// What of the tokens is not part of a block, whose first and last line stay (H-52).
fn outside(tokens: Vec<Range<usize>>, blocks: &[Block]) -> Vec<Range<usize>> {
    let mut rest = Vec::with_capacity(tokens.len());
    let mut passed = 0;
    for token in tokens {
        passed += blocks[passed..]
            .iter()
            .take_while(|block| block.whole.end <= token.start)
            .count();
        let inside = blocks[passed..]
            .iter()
            .take_while(|block| block.whole.start < token.end);
        let mut start = token.start;
        for block in inside {
            if block.whole.start >= start + SHORTEST_REST {
                rest.push(start..block.whole.start);
            }
            start = block.whole.end;
        }
        if start == token.start || token.end >= start + SHORTEST_REST {
            rest.push(start..token.end);
        }
    }
    rest
}

/// `None` when it is a mask already.
fn mask_token(token: &str) -> Option<String> {
    // A configured expression may find a whole block.
    if token.starts_with("-----")
        && let [block] = pem_blocks(token).as_slice()
        && block.whole == (0..token.len())
    {
        let body = mask_body(&token[block.body.clone()])?;
        return Some([&token[..block.body.start], &body, &token[block.body.end..]].concat());
    }
    if token == WHOLE {
        return None;
    }
    let edge = |count: usize| {
        token
            .char_indices()
            .nth(count)
            .map_or(token.len(), |(at, _)| at)
    };
    let first = edge(SHOWN_FIRST);
    let last = token
        .char_indices()
        .rev()
        .nth(SHOWN_LAST - 1)
        .map_or(0, |(at, _)| at);
    if token[first..]
        .strip_prefix(GAP)
        .is_some_and(|rest| token.len() - rest.len() == last)
    {
        return None;
    }
    if edge(SHORTEST_SHOWN - 1) == token.len() {
        return Some(WHOLE.to_owned());
    }
    Some(format!("{}{GAP}{}", &token[..first], &token[last..]))
}

/// `None` when it is a mask already.
fn mask_body(body: &str) -> Option<String> {
    let inner = body.trim();
    if inner == BLOCK_GAP || inner.is_empty() {
        return None;
    }
    // A block written on one line (inside a JSON string) stays on one line.
    let from = body.len() - body.trim_start().len();
    let to = body.trim_end().len();
    let edge = |space: &str| if space.contains('\n') { "\n" } else { "" };
    Some([edge(&body[..from]), BLOCK_GAP, edge(&body[to..])].concat())
}

static BUILTIN: LazyLock<Builtin> = LazyLock::new(Builtin::new);
static PEM_BEGIN: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?i-u)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));
static PEM_END: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?i-u)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));

fn fixed(expression: &str) -> Regex {
    Regex::new(expression)
        .expect("the built-in expressions are fixed, and a test compiles them all")
}

/// The set of H-51. The first five are what stands before a value.
struct Builtin {
    assignment: Regex,
    member: Regex,
    flag: Regex,
    header: Regex,
    bearer: Regex,
    bare: Regex,
    chat_bot: Regex,
}

impl Builtin {
    fn new() -> Self {
        Self {
            // The name's start needs no rule: whatever word ends so is one. Markdown may set the name in bold or as code.
            assignment: fixed(
                r"(?i-u:KEY|TOKEN|SECRET|PASSWORD|PASSWD)[*`]{0,3}\s*(?:=>|:=|={1,3}|:)(?:\*{1,2}\s)?\s*",
            ),
            // Quotes with backslashes before them: JSON inside a JSON string.
            member: fixed(
                r#"["'](?i-u:api[-_]?key|token|secret|password|passwd|(?:access|refresh)[-_]?token)\\*["']\s*:\s*\\*["']"#,
            ),
            flag: fixed(
                r"--(?i-u:api[-_]?key|token|secret|password|passwd|(?:access|refresh)[-_]?token)\s+",
            ),
            header: fixed(r#"(?i-u:Authorization)["'`\\]*\s*[:=]\s*["'`\\]*(?i-u:Bearer)\s+"#),
            bearer: fixed(r"(?i-u:\bBearer\s+)"),
            bare: fixed(
                r"(?ix-u)\b(?:
                    sk-[a-z0-9_-]{8,} | ghp_[a-z0-9]{20,} | github_pat_[a-z0-9_]{20,} | xox[abprs]-[a-z0-9-]{10,}
                    | xapp-[a-z0-9-]{10,} | gsk_[a-z0-9_-]{10,} | AIza[a-z0-9_-]{20,} | pplx-[a-z0-9_-]{10,}
                    | npm_[a-z0-9]{10,})",
            ),
            // The word before it is how the service writes it into addresses.
            chat_bot: fixed(r"(?i-u)(?:\b|\bbot)([0-9]{6,}:[a-z0-9_-]{20,})"),
        }
    }

    fn find(&self, text: &str, found: &mut Found) {
        let tokens = &mut found.tokens;
        read_after(&self.assignment, text, tokens, |at| {
            // A path in a program (`Key::new`) is no assignment.
            let path = text[..at].ends_with(':') && text[at..].starts_with(':');
            if path { None } else { plain_value(text, at) }
        });
        read_after(&self.member, text, tokens, |at| string_value(text, at));
        read_after(&self.flag, text, tokens, |at| plain_value(text, at));
        read_after(&self.header, text, tokens, |at| bearer_value(text, at, 1));
        read_after(&self.bearer, text, tokens, |at| {
            bearer_value(text, at, SHORTEST_SHOWN)
        });
        last_groups(&self.bare, text, tokens);
        last_groups(&self.chat_bot, text, tokens);
        found.blocks = pem_blocks(text);
    }
}

/// Reads a value behind each match. A match inside a value already read is passed over: its value ends no later, and
/// reading it again would cost once more for each.
fn read_after(
    rule: &Regex,
    text: &str,
    tokens: &mut Vec<Range<usize>>,
    read: impl Fn(usize) -> Option<Range<usize>>,
) {
    let mut covered = 0;
    for before in rule.find_iter(text) {
        if before.end() < covered {
            continue;
        }
        if let Some(token) = read(before.end()) {
            covered = token.end;
            tokens.push(token);
        }
    }
}

/// A value in quotes on the same line, or up to white space, a quote or a backslash.
fn plain_value(text: &str, at: usize) -> Option<Range<usize>> {
    /// Deeper nesting is no quoting. With a bound, only so many kinds of quotes can be left open on a line, and only
    /// for those a line is read to its end in vain.
    const DEEPEST: usize = 3;
    let bytes = text.as_bytes();
    let escapes = run(&bytes[at..], |byte| byte == b'\\');
    let mut start = at;
    if let Some(&quote @ (b'"' | b'\'' | b'`')) = bytes.get(at + escapes) {
        start = at + escapes + 1;
        if escapes <= DEEPEST
            && let Some(end) = closing(bytes, start, quote, escapes)
        {
            return (start < end).then_some(start..end);
        }
    }
    let stops = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\');
    let end = text[start..]
        .find(stops)
        .map_or(text.len(), |length| start + length);
    (start < end).then_some(start..end)
}

/// A string whose opening quote ends at `at`. One that is not closed (JSON still being written) ends with its line.
fn string_value(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let quote = bytes[at - 1];
    let escapes = bytes[..at - 1]
        .iter()
        .rev()
        .take_while(|&&byte| byte == b'\\')
        .count();
    let end = closing(bytes, at, quote, escapes)
        .unwrap_or_else(|| at + run(&bytes[at..], |byte| !is_line_end(byte)));
    (at < end).then_some(at..end)
}

fn bearer_value(text: &str, at: usize, shortest: usize) -> Option<Range<usize>> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    let length = run(&text.as_bytes()[at..], is_token);
    (length >= shortest).then_some(at..at + length)
}

/// Where a string ends that was opened by `quote` with `escapes` backslashes before it, if it does on its line.
fn closing(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> Option<usize> {
    let mut backslashes = 0;
    for (at, &byte) in bytes.iter().enumerate().skip(start) {
        // In a string nested so deep, an escaped backslash takes twice as many as one before a quote and one more.
        if byte == quote && backslashes % (2 * (escapes + 1)) == escapes {
            return Some(at - escapes);
        }
        if is_line_end(byte) {
            return None;
        }
        backslashes = if byte == b'\\' { backslashes + 1 } else { 0 };
    }
    None
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn run(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| is_part(byte)).count()
}

/// PEM private keys, also those whose end is cut off.
fn pem_blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut begins = PEM_BEGIN.find_iter(text).peekable();
    let mut ends = PEM_END.find_iter(text).peekable();
    while let Some(begin) = begins.next() {
        while ends.next_if(|end| end.start() < begin.end()).is_some() {}
        let limit = begins.peek().map_or(text.len(), Match::start);
        let (body, end) = match ends.peek() {
            Some(end) if end.start() < limit => (end.start(), end.end()),
            _ => {
                let end = begin.end() + key_lines(&text[begin.end()..limit]);
                (end, end)
            }
        };
        blocks.push(Block {
            whole: begin.start()..end,
            body: begin.end()..body,
        });
    }
    blocks
}

/// How much of the text is lines of a PEM block: headers, then long lines of base64. Line ends may be escaped.
fn key_lines(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut end = 0;
    loop {
        at += run(&bytes[at..], |byte| byte.is_ascii_whitespace());
        if end == 0 && text[at..].starts_with(BLOCK_GAP) {
            return at + BLOCK_GAP.len();
        }
        if let [b'\\', b'n' | b'r', ..] = bytes[at..] {
            at += 2;
            continue;
        }
        let length = run(&bytes[at..], |byte| {
            byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
        });
        let line = run(&bytes[at..], |byte| !is_line_end(byte));
        if length >= SHORTEST_KEY_LINE {
            at += length;
            end = at;
        } else if end == 0 && text[at..at + line].contains(": ") {
            at += line;
        } else {
            return end;
        }
    }
}
