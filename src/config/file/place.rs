//! Where a member stands: its path, and the line of that path in the text.
//!
//! The line is looked for in text that has been read as JSON5 before, so the search need not understand more than
//! brackets, strings and comments; where it does not find the way on it stays with the last place it knew.

use std::fmt;

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Name(String),
    Item(usize),
}

/// A path from the root of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(Vec<Step>);

impl Place {
    pub(super) fn member(&self, name: &str) -> Self {
        self.and(Step::Name(name.to_owned()))
    }

    pub(super) fn item(&self, at: usize) -> Self {
        self.and(Step::Item(at))
    }

    fn and(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The line, counted from 1, of the member or the nearest object around it.
    pub(super) fn line(&self, text: &str) -> usize {
        let mut scan = Scan { text, at: 0 };
        scan.space();
        let mut found = scan.at;
        for step in &self.0 {
            match scan.enter(step) {
                Some(at) => found = at,
                None => break,
            }
        }
        line_of(text, found)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
            !name.is_empty() && name.chars().all(fits)
        };
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Item(item) => write!(f, "[{item}]")?,
                Step::Name(name) if plain(name) && at == 0 => write!(f, "{name}")?,
                Step::Name(name) if plain(name) => write!(f, ".{name}")?,
                Step::Name(name) => write!(f, "[{name:?}]")?,
            }
        }
        Ok(())
    }
}

/// Line of a byte, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Nothing but white space and comments.
pub(super) fn only_space(text: &str) -> bool {
    let mut scan = Scan { text, at: 0 };
    scan.space();
    scan.at == text.len()
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Skips white space and comments.
    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            let end = if let Some(comment) = trimmed.strip_prefix("//") {
                comment
                    .find(['\n', '\r', '\u{2028}', '\u{2029}'])
                    .map(|at| at + 2)
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                comment.find("*/").map(|at| at + 4)
            } else {
                return;
            };
            self.at += end.unwrap_or(trimmed.len());
        }
    }

    /// Goes from the start of a value to the start of the value a step further; gives where that step is written.
    /// Of members with the same name the last one counts, as for the reader.
    fn enter(&mut self, step: &Step) -> Option<usize> {
        let is_object = match self.next()? {
            '{' => true,
            '[' => false,
            _ => return None,
        };
        let mut found = None;
        let mut item = 0;
        loop {
            self.space();
            if matches!(self.peek()?, '}' | ']') {
                break;
            }
            let start = self.at;
            let here = if is_object {
                let name = self.name();
                self.space();
                if self.next()? != ':' {
                    return None;
                }
                self.space();
                *step == Step::Name(name)
            } else {
                *step == Step::Item(item)
            };
            if here {
                found = Some((start, self.at));
            }
            item += 1;
            self.value();
            self.space();
            if self.peek()? == ',' {
                self.next();
            }
        }
        let (start, value) = found?;
        self.at = value;
        Some(start)
    }

    /// A member's name, quoted or bare.
    fn name(&mut self) -> String {
        let start = self.at;
        if matches!(self.peek(), Some('"' | '\'')) {
            self.string();
        } else {
            let end = self
                .rest()
                .find(|c: char| c == ':' || c == '/' || c.is_whitespace());
            self.at += end.unwrap_or(self.rest().len());
        }
        let written = self.text.get(start..self.at).unwrap_or_default();
        if written.starts_with(['"', '\'']) {
            json5::from_str(written).unwrap_or_default()
        } else {
            written.to_owned()
        }
    }

    fn string(&mut self) {
        let quote = self.next();
        while let Some(c) = self.next() {
            if c == '\\' {
                self.next();
            } else if Some(c) == quote {
                return;
            }
        }
    }

    /// Skips a value.
    fn value(&mut self) {
        let mut depth = 0_usize;
        loop {
            self.space();
            match self.peek() {
                None => return,
                Some('"' | '\'') => self.string(),
                Some('{' | '[') => {
                    depth += 1;
                    self.next();
                }
                Some('}' | ']') if depth > 0 => {
                    depth -= 1;
                    self.next();
                }
                Some('}' | ']') => return,
                Some(',') if depth == 0 => return,
                Some(_) => {
                    self.next();
                }
            }
        }
    }
}
