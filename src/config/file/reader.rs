//! Reading members of objects with the place where they stand, so that every error and warning can name it.

use super::ConfigError;
use super::place::{Place, line_of, only_space};
use crate::text::Untrusted;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

pub(super) type Result<T> = std::result::Result<T, ConfigError>;

/// Objects and lists in one another; more is a mistake, and would use up the stack.
const MAX_DEPTH: usize = 200;

/// Longest value that an error repeats, in characters.
const SHOWN_CHARS: usize = 40;

/// The file.
pub(super) struct Source<'a> {
    text: &'a str,
    file: &'a Path,
    warnings: RefCell<Vec<Untrusted>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str, file: &'a Path) -> Self {
        Self {
            text,
            file,
            warnings: RefCell::default(),
        }
    }

    pub(super) fn into_warnings(self) -> Vec<Untrusted> {
        self.warnings.into_inner()
    }

    /// The value in the file; `None` when there is nothing but white space and comments.
    pub(super) fn read(&self) -> Result<Option<Value>> {
        if only_space(self.text) {
            return Ok(None);
        }
        self.check_depth()?;
        // `json5::from_str` looks at what follows the value as well, the path only comes from the reader.
        let whole = json5::from_str::<Value>(self.text);
        whole.map(Some).map_err(|error| {
            let mut reader = json5::Deserializer::from_str(self.text);
            let path = serde_path_to_error::deserialize::<_, Value>(&mut reader)
                .err()
                .map(|error| error.path().to_string())
                // Where the reader was between two members it says `?`.
                .map(|path| path.trim_end_matches(['?', '.']).to_owned())
                .filter(|path| !path.is_empty());
            let reason = error
                .code()
                .map_or_else(|| error.to_string(), |code| code.to_string());
            let position = error.position();
            let line = position.map_or(1, |at| at.line + 1);
            let column = position.map_or(1, |at| at.column + 1);
            let path = path.map_or_else(String::new, |path| format!("{path}: "));
            self.at_line(line, &format!("{path}{reason} at column {column}"), "JSON5")
        })
    }

    fn check_depth(&self) -> Result<()> {
        let mut depth = 0_usize;
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                let line = line_of(self.text, at);
                let allowed = format!("at most {MAX_DEPTH} levels");
                return Err(self.at_line(line, "too many nested brackets", &allowed));
            }
        }
        Ok(())
    }

    /// Reads the members of the whole file.
    pub(super) fn root(
        &self,
        root: &Value,
        read: impl FnOnce(&Members<'_>) -> Result<()>,
    ) -> Result<()> {
        match root {
            Value::Object(map) => Members::new(self, Place::default(), Some(map)).warned(read),
            other => Err(self.at_line(
                1,
                &format!("{} is no configuration", shown(other)),
                "an object",
            )),
        }
    }

    fn at_line(&self, line: usize, what: &str, allowed: &str) -> ConfigError {
        ConfigError {
            file: self.file.into(),
            message: format!("{}:{line}: {what}; allowed: {allowed}", self.file.display()),
        }
    }

    fn error(&self, place: &Place, reason: &str, allowed: &str) -> ConfigError {
        self.at_line(
            place.line(self.text),
            &format!("{place}: {reason}"),
            allowed,
        )
    }

    fn warn(&self, place: &Place, what: &str) {
        let line = place.line(self.text);
        let text = format!("{}:{line}: {place}: {what}", self.file.display());
        self.warnings.borrow_mut().push(text.into());
    }
}

/// A value as an error repeats it: scalars shortened, everything else by its kind.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN_CHARS => {
            let cut: String = text.chars().take(SHOWN_CHARS).collect();
            format!("{cut:?}…")
        }
        Value::String(text) => format!("{text:?}"),
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        scalar => scalar.to_string(),
    }
}

/// Members of an object; of none when the object is missing.
pub(super) struct Members<'a> {
    source: &'a Source<'a>,
    place: Place,
    map: Option<&'a Map<String, Value>>,
    /// Names that were asked for: the known ones.
    known: RefCell<BTreeSet<String>>,
    any_name: std::cell::Cell<bool>,
}

impl<'a> Members<'a> {
    fn new(source: &'a Source<'a>, place: Place, map: Option<&'a Map<String, Value>>) -> Self {
        Self {
            source,
            place,
            map,
            known: RefCell::default(),
            any_name: std::cell::Cell::new(false),
        }
    }

    /// Directory of the file, for relative paths.
    pub(super) fn dir(&self) -> &'a Path {
        self.source.file.parent().unwrap_or(Path::new(""))
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.known.borrow_mut().insert(name.to_owned());
        self.map?.get(name)
    }

    /// The member is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The member is an object.
    pub(super) fn is_object(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_object)
    }

    /// Every name is known; gives those that are there, in file order.
    pub(super) fn any_name(&self) -> Vec<String> {
        self.any_name.set(true);
        self.map
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Names that are known and read elsewhere or not at all.
    pub(super) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.get(name);
        }
    }

    /// An error at a member; at the object itself with an empty name.
    pub(super) fn error(&self, name: &str, reason: &str, allowed: &str) -> ConfigError {
        let place = if name.is_empty() {
            self.place.clone()
        } else {
            self.place.member(name)
        };
        self.source.error(&place, reason, allowed)
    }

    /// An error at an item of a list.
    pub(super) fn item_error(
        &self,
        name: &str,
        at: usize,
        reason: &str,
        allowed: &str,
    ) -> ConfigError {
        let place = self.place.member(name).item(at);
        self.source.error(&place, reason, allowed)
    }

    /// A warning at the object itself.
    pub(super) fn warn(&self, what: &str) {
        self.source.warn(&self.place, what);
    }

    fn wrong<T>(&self, name: &str, value: &Value, reason: &str, allowed: &str) -> Result<T> {
        Err(self.error(name, &format!("{} {reason}", shown(value)), allowed))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        self.text_or(name, "a string")
    }

    /// As [`Members::text`], where other things than a string are allowed and were looked for before.
    pub(super) fn text_or(&self, name: &str, allowed: &str) -> Result<Option<String>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => self.wrong(name, other, "is no string", allowed),
        }
    }

    pub(super) fn needed_text(&self, name: &str) -> Result<String> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.error(name, "is missing", "a string"))
    }

    /// One of a few words, trimmed, in any case; gives the word as it is listed.
    pub(super) fn word<'w>(&self, name: &str, words: &[&'w str]) -> Result<Option<&'w str>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let given = value.as_str().map(|word| word.trim().to_lowercase());
        match words.iter().find(|word| Some(**word) == given.as_deref()) {
            Some(word) => Ok(Some(word)),
            None => self.wrong(name, value, "is none of the words", &words.join(", ")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => self.wrong(name, other, "is neither true nor false", "true, false"),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => self.wrong(name, value, "is no number", "a number"),
            },
        }
    }

    pub(super) fn number_from(&self, name: &str, min: f64) -> Result<Option<f64>> {
        let allowed = format!("a number, at least {min}");
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number >= min => Ok(Some(number)),
                Some(_) => self.wrong(name, value, "is too small", &allowed),
                None => self.wrong(name, value, "is no number", &allowed),
            },
        }
    }

    /// A whole number of a range; `u64::MAX` is no upper limit.
    pub(super) fn whole(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>> {
        let allowed = if max == u64::MAX {
            format!("a whole number, at least {min}")
        } else {
            format!("a whole number from {min} to {max}")
        };
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let Some(number) = value.as_f64() else {
            return self.wrong(name, value, "is no number", &allowed);
        };
        if number.fract() != 0.0 {
            return self.wrong(name, value, "is no whole number", &allowed);
        }
        // Whole numbers beyond the precision of a float are beyond every use as well; the cast keeps to the range.
        let whole = value.as_u64().unwrap_or(number as u64);
        if number < 0.0 || !(min..=max).contains(&whole) {
            return self.wrong(name, value, "is out of range", &allowed);
        }
        Ok(Some(whole))
    }

    /// A list of strings.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        let allowed = "a list of strings";
        let items = match self.get(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return self.wrong(name, other, "is no list", allowed),
        };
        let texts = items.iter().enumerate().map(|(at, item)| match item {
            Value::String(text) => Ok(text.clone()),
            other => {
                let reason = format!("{} is no string", shown(other));
                Err(self.item_error(name, at, &reason, allowed))
            }
        });
        texts.collect::<Result<Vec<String>>>().map(Some)
    }

    fn object(&self, name: &str) -> Result<Members<'a>> {
        let map = match self.get(name) {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => return self.wrong(name, other, "is no object", "an object"),
        };
        Ok(Members::new(self.source, self.place.member(name), map))
    }

    fn items(&self, name: &str) -> Result<Vec<Members<'a>>> {
        let allowed = "a list of objects";
        let items = match self.get(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return self.wrong(name, other, "is no list", allowed),
        };
        let place = self.place.member(name);
        let members = items.iter().enumerate().map(|(at, item)| match item {
            Value::Object(map) => Ok(Members::new(self.source, place.item(at), Some(map))),
            other => {
                let reason = format!("{} is no object", shown(other));
                Err(self.item_error(name, at, &reason, allowed))
            }
        });
        members.collect()
    }

    /// Reads an object; unknown members are a warning (AM-12). A missing object is read as an empty one.
    pub(super) fn section<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Members<'a>) -> Result<T>,
    ) -> Result<T> {
        self.object(name)?.warned(read)
    }

    /// As [`Members::section`]; unknown members are an error.
    pub(super) fn strict<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Members<'a>) -> Result<T>,
    ) -> Result<T> {
        self.object(name)?.refused(read)
    }

    /// Reads a list of objects; unknown members are a warning.
    pub(super) fn list<T>(
        &self,
        name: &str,
        mut read: impl FnMut(&Members<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let items = self.items(name)?.into_iter();
        items.map(|item| item.warned(&mut read)).collect()
    }

    /// As [`Members::list`]; unknown members are an error.
    pub(super) fn strict_list<T>(
        &self,
        name: &str,
        mut read: impl FnMut(&Members<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let items = self.items(name)?.into_iter();
        items.map(|item| item.refused(&mut read)).collect()
    }

    fn warned<T>(self, read: impl FnOnce(&Members<'a>) -> Result<T>) -> Result<T> {
        let value = read(&self)?;
        for name in self.unknown() {
            let nearest = self.nearest(&name).map_or_else(String::new, |nearest| {
                format!("; nearest known name: {nearest}")
            });
            let what = format!("unknown member, ignored{nearest}");
            self.source.warn(&self.place.member(&name), &what);
        }
        Ok(value)
    }

    fn refused<T>(self, read: impl FnOnce(&Members<'a>) -> Result<T>) -> Result<T> {
        let value = read(&self)?;
        match self.unknown().first() {
            None => Ok(value),
            Some(name) => {
                let known: Vec<String> = self.known.borrow().iter().cloned().collect();
                Err(self.error(name, "unknown member", &known.join(", ")))
            }
        }
    }

    fn unknown(&self) -> Vec<String> {
        if self.any_name.get() {
            return Vec::new();
        }
        let known = self.known.borrow();
        let names = self.map.into_iter().flat_map(Map::keys);
        names
            .filter(|name| !known.contains(*name))
            .cloned()
            .collect()
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let known = self.known.borrow();
        known
            .iter()
            .min_by_key(|known| distance(&known.to_lowercase(), &name.to_lowercase()))
            .cloned()
    }
}

/// How many letters must be added, taken away or replaced to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    // A name of a thousand letters is near nothing; the table would only grow.
    let other: Vec<char> = other.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().take(100).enumerate() {
        let mut diagonal = at;
        let mut left = at + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&other) {
            let here = (diagonal + usize::from(a != *b))
                .min(left + 1)
                .min(*cell + 1);
            diagonal = *cell;
            *cell = here;
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
