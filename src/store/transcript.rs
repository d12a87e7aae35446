//! Transcripts: append-only JSON lines (15.2). The end is read backwards, older pages by byte offset, growth by
//! following; a transcript is never read whole to show its end, and a monstrous line is measured, not loaded.
//!
//! Reading repairs nothing on disk and hides nothing: what cannot be read is a [`Damage`] at its place. Absent on
//! purpose: what a line means (`model::message`), and any lock; one process writes.

use super::{Span, StoreError, TranscriptPage};
use crate::model::message::{Damage, RawLine};
use serde_json::Value;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Lines above this many bytes are [`Damage::TooLong`].
pub const MAX_LINE_BYTES: usize = 32 << 20;

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// A page with a limit ends here, shorter than asked, rather than fill the memory with what is no message.
const MAX_PAGE_BYTES: u64 = 128 << 20;

/// What a line costs besides its text, about.
const LINE_COST_BYTES: u64 = 256;

/// Records glued together on one line; more is no accident of writing.
const MAX_GLUED: usize = 1000;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads part of a transcript file, in file order. A missing file is an empty page.
///
/// The last line, when it has no line break, is read if it is whole (D-24); else it is [`Damage::Torn`], `end` stays
/// before it, and `Span::After` leaves it for later. `Span::After` a position where no line can begin (the file was
/// cut or replaced) reads from the start, which `start == 0` tells. Several objects on one line are several lines,
/// each at its own position. Blank lines are skipped. A page can hold fewer messages than asked for although there are
/// more (`at_start`, `end` tell): when what lies between them is beyond all measure.
///
/// # Errors
/// [`StoreError::Io`] when the file is there and cannot be read.
pub fn read(path: &Path, span: Span, limit: usize) -> Result<TranscriptPage, StoreError> {
    let failed = |error| StoreError::Io {
        what: "cannot read transcript",
        path: path.into(),
        error,
    };
    match open_to_read(path) {
        Ok(Some(file)) => read_file(file, span, limit).map_err(failed),
        Ok(None) => Ok(TranscriptPage {
            at_start: true,
            ..TranscriptPage::default()
        }),
        Err(error) => Err(failed(error)),
    }
}

/// Asks what it is before opening: a pipe would block for ever.
fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !found.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    File::open(path).map(Some)
}

fn read_file(mut file: File, span: Span, limit: usize) -> io::Result<TranscriptPage> {
    // The length is taken once: what is appended meanwhile belongs to the next reading.
    let len = file.metadata()?.len();
    match span {
        Span::Tail => read_backwards(file, len, limit),
        Span::Before(position) => read_backwards(file, position.min(len), limit),
        Span::Whole => read_forwards(file, 0, len, limit, true),
        Span::After(position) => {
            let start = if is_line_edge(&mut file, position, len)? {
                position
            } else {
                0
            };
            read_forwards(file, start, len, limit, false)
        }
    }
}

/// Can a line begin here? After a line break, or after a whole last line that had none.
fn is_line_edge(file: &mut File, position: u64, len: u64) -> io::Result<bool> {
    if position == 0 {
        return Ok(true);
    }
    if position > len {
        return Ok(false);
    }
    let mut around = [b'\n'; 2];
    let there = usize::from(position < len) + 1;
    file.seek(SeekFrom::Start(position - 1))?;
    file.read_exact(&mut around[..there])?;
    let [before, after] = around;
    Ok(before == b'\n' || (before == b'}' && matches!(after, b'\n' | b'\r' | b' ' | b'{')))
}

/// A line of the file, without its line break; `text` is absent when it is too long.
struct Line {
    position: u64,
    bytes: u64,
    text: Option<Vec<u8>>,
    /// Has its line break.
    ended: bool,
}

impl Line {
    /// What stands on the line: nothing, one record, or several that were glued together.
    fn records(&self) -> Vec<RawLine> {
        let damaged = |position, bytes, damage| RawLine {
            position,
            bytes,
            line: Value::Null,
            damage: Some(damage),
        };
        let Some(text) = &self.text else {
            return vec![damaged(self.position, self.bytes, Damage::TooLong)];
        };
        // A line without its end may be cut inside a character or inside JSON; which of them it is says nothing.
        let or_torn = |damage| if self.ended { damage } else { Damage::Torn };
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let json = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let skipped = text.len() - json.len();
        // Bytes that are no text spoil the record they stand in, not those beside it on the line.
        let (mut json, bad) = match std::str::from_utf8(json) {
            Ok(json) => (Cow::Borrowed(json), Vec::new()),
            Err(_) => {
                let (json, bad) = without_bad_bytes(json);
                (Cow::Owned(json), bad)
            }
        };
        let reason = |from: usize, to: usize| {
            if bad.iter().any(|at| (from..to).contains(at)) {
                Damage::NotUtf8
            } else {
                Damage::NotJson
            }
        };
        let mut may_mend = true;
        let mut records = Vec::new();
        let mut from = 0;
        loop {
            from += json[from..].len() - json[from..].trim_start().len();
            let rest = &json[from..];
            if rest.is_empty() {
                break;
            }
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let position = if from == 0 {
                self.position
            } else {
                self.position + (skipped + from) as u64
            };
            match values.next() {
                Some(Ok(line @ Value::Object(_))) if records.len() < MAX_GLUED => {
                    let length = values.byte_offset();
                    records.push(RawLine {
                        position,
                        bytes: length as u64,
                        line,
                        damage: None,
                    });
                    from += length;
                }
                Some(Ok(_)) if records.is_empty() && only_value(rest) => {
                    let bytes = rest.trim_end().len() as u64;
                    records.push(damaged(position, bytes, or_torn(Damage::NotAnObject)));
                    break;
                }
                _ if may_mend => {
                    may_mend = false;
                    // Of the same length, so that places stay what they are.
                    if let Some(mended) = mend(&json) {
                        json = Cow::Owned(mended);
                    }
                }
                _ => {
                    // A good record may stand behind: after a cut one, or after bytes that were never written.
                    if let Some(good) = next_record(rest).filter(|_| records.len() < MAX_GLUED) {
                        let bytes = rest[..good].trim_end().len() as u64;
                        records.push(damaged(position, bytes, reason(from, from + good)));
                        from += good;
                        continue;
                    }
                    let bytes = rest.trim_end().len() as u64;
                    let reason = reason(from, json.len());
                    records.push(damaged(position, bytes, or_torn(reason)));
                    break;
                }
            }
        }
        if let [only] = records.as_mut_slice() {
            only.bytes = text.len() as u64;
        }
        records
    }
}

/// Reads a record that is kept by itself.
///
/// # Errors
/// Why it is none.
pub(super) fn record(text: &[u8]) -> Result<Value, Damage> {
    let text = std::str::from_utf8(text).map_err(|_| Damage::NotUtf8)?;
    let read = serde_json::from_str(text);
    match read.or_else(|error| serde_json::from_str(&mend(text).ok_or(error)?)) {
        Ok(line @ Value::Object(_)) => Ok(line),
        Ok(_) => Err(Damage::NotAnObject),
        Err(_) => Err(Damage::NotJson),
    }
}

/// With halves of surrogate pairs, which JavaScript writes when it cuts a text, as replacement characters: the same
/// number of bytes. `None` when there are none.
fn mend(json: &str) -> Option<String> {
    const HALF_BYTES: usize = 6;
    let half = |at: usize| {
        let digits = json.get(at..at + HALF_BYTES)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(found) = json[from..].find('\\') {
        let at = from + found;
        // Escaped is one character: what follows a reversed stroke is never the start of another escape.
        let after = json[at + 1..].chars().next().map_or(0, char::len_utf8);
        from = at + 1 + after;
        match half(at) {
            Some(0xd800..=0xdbff) if matches!(half(at + HALF_BYTES), Some(0xdc00..=0xdfff)) => {
                from = at + 2 * HALF_BYTES;
            }
            Some(0xd800..=0xdfff) => {
                mended.push_str(&json[done..at]);
                mended.push_str("\\ufffd");
                from = at + HALF_BYTES;
                done = from;
            }
            _ => {}
        }
    }
    (done > 0).then(|| mended + &json[done..])
}

/// Text of the same length, with what no JSON can hold for each byte that is no text; and where those are.
fn without_bad_bytes(bytes: &[u8]) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(bytes.len());
    let mut bad = Vec::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            bad.push(text.len());
            text.push('\u{1}');
        }
    }
    (text, bad)
}

/// Where a whole record begins behind what cannot be read: an object as only a line is one, so that nothing that is
/// part of a cut record is taken for it.
fn next_record(damaged: &str) -> Option<usize> {
    /// A line of nothing but beginnings costs no more than so many attempts.
    const TRIES: usize = 16;
    damaged
        .match_indices("{\"")
        .map(|(at, _)| at)
        .filter(|at| *at > 0)
        .take(TRIES)
        .find(|at| {
            let mut values =
                serde_json::Deserializer::from_str(&damaged[*at..]).into_iter::<Value>();
            values.next().and_then(Result::ok).is_some_and(|line| {
                let has = |name: &str| line.get(name).is_some();
                has("type") && (line["message"].is_object() || has("timestamp") && has("id"))
            })
        })
}

fn only_value(json: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}

/// How much a page may still hold.
pub(super) struct Room {
    messages: usize,
    bytes: u64,
}

impl Room {
    pub(super) fn of(limit: usize) -> Self {
        Self {
            messages: limit,
            bytes: if limit == usize::MAX {
                u64::MAX
            } else {
                MAX_PAGE_BYTES
            },
        }
    }

    pub(super) fn is_left(&self) -> bool {
        self.messages > 0 && self.bytes > 0
    }

    pub(super) fn take(&mut self, record: &RawLine) {
        self.messages -= usize::from(record.message().is_some());
        self.bytes = self.bytes.saturating_sub(record.bytes + LINE_COST_BYTES);
    }
}

fn is_torn(records: &[RawLine]) -> bool {
    records
        .last()
        .is_some_and(|last| last.damage == Some(Damage::Torn))
}

fn read_backwards(file: File, end: u64, limit: usize) -> io::Result<TranscriptPage> {
    let mut page = TranscriptPage {
        start: end,
        end,
        ..TranscriptPage::default()
    };
    let mut lines = Backwards::new(file, end, MAX_LINE_BYTES);
    let mut room = Room::of(limit);
    while room.is_left() {
        let Some(line) = lines.next()? else { break };
        page.start = line.position;
        let records = line.records();
        if let Some(torn) = records.last().filter(|_| is_torn(&records)) {
            page.end = torn.position;
        }
        for record in records.into_iter().rev() {
            if !room.is_left() {
                break;
            }
            room.take(&record);
            page.start = record.position;
            page.lines.push(record);
        }
    }
    page.lines.reverse();
    page.at_start = page.start == 0;
    Ok(page)
}

fn read_forwards(
    mut file: File,
    start: u64,
    len: u64,
    limit: usize,
    show_torn: bool,
) -> io::Result<TranscriptPage> {
    file.seek(SeekFrom::Start(start))?;
    let mut input = BufReader::with_capacity(CHUNK_BYTES, file.take(len - start));
    let mut page = TranscriptPage {
        start,
        end: start,
        at_start: start == 0,
        ..TranscriptPage::default()
    };
    let mut room = Room::of(limit);
    let mut position = start;
    while room.is_left() {
        let Some(line) = next_line(&mut input, position, MAX_LINE_BYTES)? else {
            break;
        };
        let next = position + line.bytes + u64::from(line.ended);
        let mut records = line.records();
        position = next;
        page.end = next;
        if is_torn(&records) {
            let torn = records.pop().expect("a torn record is there");
            page.end = torn.position;
            if show_torn {
                records.push(torn);
            }
        }
        for record in records {
            if !room.is_left() {
                // Between two records of one line.
                page.end = page
                    .lines
                    .last()
                    .map_or(record.position, |last| last.position + last.bytes);
                break;
            }
            room.take(&record);
            page.lines.push(record);
        }
    }
    Ok(page)
}

/// The next line of a forward reading.
fn next_line(input: &mut impl BufRead, position: u64, max: usize) -> io::Result<Option<Line>> {
    let mut text = Vec::new();
    let mut bytes = 0;
    let mut ended = false;
    while !ended {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let found = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..found.unwrap_or(buffer.len())];
        bytes += part.len() as u64;
        if bytes <= max as u64 {
            text.extend_from_slice(part);
        } else {
            text = Vec::new();
        }
        let used = part.len() + usize::from(found.is_some());
        ended = found.is_some();
        input.consume(used);
    }
    Ok((bytes > 0 || ended).then(|| Line {
        position,
        bytes,
        text: (bytes <= max as u64).then_some(text),
        ended,
    }))
}

/// Lines from a position backwards.
struct Backwards {
    file: File,
    max: usize,
    /// Bytes from `window_at` on up to the end of the line that comes next, without its line break.
    window: Vec<u8>,
    window_at: u64,
    /// The line that comes next has a line break.
    ended: bool,
    done: bool,
}

impl Backwards {
    fn new(file: File, end: u64, max: usize) -> Self {
        Self {
            file,
            max,
            window: Vec::new(),
            window_at: end,
            ended: false,
            done: end == 0,
        }
    }

    fn next(&mut self) -> io::Result<Option<Line>> {
        // Only what was not there before is searched for the line break.
        let mut unsearched = self.window.len();
        let mut too_long = 0;
        while !self.done {
            if let Some(at) = self.window[..unsearched]
                .iter()
                .rposition(|byte| *byte == b'\n')
            {
                let text = self.window.split_off(at + 1);
                self.window.pop();
                let line = self.line(self.window_at + at as u64 + 1, text, too_long);
                let is_rest = !line.ended && line.bytes == 0;
                self.ended = true;
                if is_rest {
                    // Nothing stands after the last line break: that is no line.
                    unsearched = self.window.len();
                    continue;
                }
                return Ok(Some(line));
            }
            if self.window_at == 0 {
                self.done = true;
                let text = std::mem::take(&mut self.window);
                return Ok(Some(self.line(0, text, too_long)));
            }
            if self.window.len() > self.max || too_long > 0 {
                too_long += self.window.len() as u64;
                self.window.clear();
            }
            // As much again as there is, so that a long line is not moved again and again.
            let more = CHUNK_BYTES.max(self.window.len()) as u64;
            unsearched = usize::try_from(more.min(self.window_at)).unwrap_or(CHUNK_BYTES);
            let mut grown = vec![0; unsearched];
            self.window_at -= unsearched as u64;
            self.file.seek(SeekFrom::Start(self.window_at))?;
            self.file.read_exact(&mut grown)?;
            grown.append(&mut self.window);
            self.window = grown;
        }
        Ok(None)
    }

    fn line(&self, position: u64, text: Vec<u8>, dropped: u64) -> Line {
        let bytes = text.len() as u64 + dropped;
        Line {
            position,
            bytes,
            text: (bytes <= self.max as u64).then_some(text),
            ended: self.ended,
        }
    }
}

/// Appends lines, each with its line break, creating the file (0600, directories 0700) when missing; a cut last line
/// is ended first (D-26). Returns the position of each line. With `sync`, the data is on disk when it returns.
///
/// # Errors
/// [`StoreError::Io`]; then nothing was written, or a cut last line that the next append ends.
pub fn append(path: &Path, lines: &[Value], sync: bool) -> Result<Vec<u64>, StoreError> {
    append_to(path, lines, sync).map_err(|error| StoreError::Io {
        what: "cannot write transcript",
        path: path.into(),
        error,
    })
}

fn append_to(path: &Path, lines: &[Value], sync: bool) -> io::Result<Vec<u64>> {
    if let Some(parent) = path.parent() {
        super::database::make_private_dir(parent)?;
    }
    let mut file = super::database::private_file(OpenOptions::new().read(true).append(true))
        .create(true)
        .open(path)?;
    let len = file.metadata()?.len();
    let mut text = Vec::new();
    if len > 0 {
        let mut last = [0];
        file.seek(SeekFrom::Start(len - 1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push(b'\n');
        }
    }
    let mut positions = Vec::with_capacity(lines.len());
    for line in lines {
        positions.push(len + text.len() as u64);
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    if let Err(error) = file.write_all(&text) {
        // The caller will say that nothing was written, so nothing should stay; should this fail too, the line that
        // is cut is ended by the next append.
        let _ = file.set_len(len);
        return Err(error);
    }
    if sync {
        file.sync_data()?;
        if len == 0 {
            super::database::sync_dir_of(path)?;
        }
    }
    Ok(positions)
}
