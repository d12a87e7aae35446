//! The cleaning itself.
//!
//! What comes out is drawable: no control character (but `\n` in a block), no bidirectional control, nothing that takes
//! no column of its own unless it belongs to the letter before it, and only a few of those on one letter. What could
//! mislead is replaced by a visible mark; a mere hint without an appearance is left out. Cleaning clean text changes
//! nothing, and the work is linear in the text.
//! Absent on purpose: tables of characters beyond the handful of tricks named here. Whether a character exists is the
//! standard library's answer, how it behaves in a cell that of [`super::width`], so that the house has one opinion.

use super::width::{char_width, continues, extends, is_pictograph, width};
use super::{Clean, Untrusted};
use std::fmt::Write;
use std::ops::Range;

/// Characters without a column of their own on one letter; what is stacked higher leaves its cell.
const MAX_MARKS: u8 = 4;
/// Everything that belongs to one letter: marks, signs that take a column, selectors, joiners.
const MAX_ATTACHED: u8 = 8;
/// Joiners in one emoji; the longest in use has three.
const MAX_LINKS: u8 = 4;
const TAB: usize = 4;

const NOT_DRAWABLE: char = '\u{fffd}';
/// Carries a mark that would otherwise land on what the screen has to the left of the text.
const CARRIER: char = '\u{25cc}';
const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';
const BLACK_FLAG: char = '\u{1f3f4}';
/// The tags behind a black flag that make the flags of England, Scotland and Wales; there are no others.
const FLAG_TAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Makes text from outside drawable on one line.
///
/// A line break becomes `␊`, a tab one space, another control character its picture (`␛`), a bidirectional control its
/// name (`⟦RLO⟧`), hidden text of tag characters what it says (`⟦TAG …⟧`), anything else without a glyph `�`.
pub fn clean(text: &Untrusted) -> Clean {
    clean_str(text.raw())
}

/// As [`clean`], for text that is not wrapped (paths, system errors).
pub fn clean_str(text: &str) -> Clean {
    Clean(Scanner::run(text, Form::Line))
}

/// As [`clean`], keeping line breaks (`\r\n` and the Unicode ones become `\n`) and expanding tabs to the next of the
/// stops every four columns.
pub fn clean_block(text: &Untrusted) -> Clean {
    Clean(Scanner::run(text.raw(), Form::Block))
}

/// JSON text (already serialised) with every character that is not drawable written as `\uXXXX`. It parses to the same
/// value; the line breaks of its layout stay.
pub fn escape_json(json: &str) -> Clean {
    Clean(Scanner::run(json, Form::Json))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Line,
    Block,
    Json,
}

/// What a character is to a screen.
enum Class {
    /// Takes columns of its own.
    Plain,
    /// Belongs to the letter before it.
    Attached,
    /// A vowel or final consonant of a Korean syllable in parts: has a column only behind a leading one.
    Jamo,
    /// U+200C and U+200D: shape their neighbours, in some scripts and in emoji.
    Joiner,
    /// Chooses a variant of the letter before it.
    Selector,
    /// An invisible copy of an ASCII character.
    Tag,
    /// An invisible character that reorders or misleads: shown by a name.
    Named(&'static str),
    /// As [`Class::Named`], shown by its number.
    Numbered,
    /// An invisible hint: left out.
    Hint,
    /// Has a picture in the block of control pictures.
    Control,
    Break,
    Tab,
    /// Not a character, or none that has a glyph.
    Unknown,
}

fn class(c: char) -> Class {
    match c {
        '\n' | '\u{2028}' | '\u{2029}' => Class::Break,
        '\t' => Class::Tab,
        '\0'..='\u{1f}' | '\u{7f}' => Class::Control,
        '\u{80}'..='\u{9f}' => Class::Numbered,
        // Zero-width space and no-break space, soft hyphen, word joiner, grapheme joiner, unwritten Khmer vowels.
        '\u{ad}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => {
            Class::Hint
        }
        // Letters, digits, punctuation and symbols that most text is made of: without them the questions below would be
        // asked for each character.
        ' '..='\u{2ff}'
        | '\u{391}'..='\u{3a1}'
        | '\u{3a3}'..='\u{482}'
        | '\u{48a}'..='\u{52f}'
        | '\u{5d0}'..='\u{5ea}'
        | '\u{620}'..='\u{64a}'
        | '\u{904}'..='\u{939}'
        | '\u{e01}'..='\u{e30}'
        | '\u{1e00}'..='\u{1eff}'
        | '\u{2010}'..='\u{2027}'
        | '\u{2030}'..='\u{205e}'
        | '\u{20a0}'..='\u{20bf}'
        | '\u{2100}'..='\u{218b}'
        | '\u{2190}'..='\u{2426}'
        | '\u{2460}'..='\u{2b73}'
        | '\u{3000}'..='\u{3029}'
        | '\u{3041}'..='\u{3096}'
        | '\u{309b}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff01}'..='\u{ff9d}'
        | '\u{1f300}'..='\u{1f3fa}'
        | '\u{1f400}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6c5}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{2a6df}' => Class::Plain,
        ZWNJ | ZWJ => Class::Joiner,
        '\u{61c}' => Class::Named("ALM"),
        '\u{200e}' => Class::Named("LRM"),
        '\u{200f}' => Class::Named("RLM"),
        '\u{202a}' => Class::Named("LRE"),
        '\u{202b}' => Class::Named("RLE"),
        '\u{202c}' => Class::Named("PDF"),
        '\u{202d}' => Class::Named("LRO"),
        '\u{202e}' => Class::Named("RLO"),
        '\u{2066}' => Class::Named("LRI"),
        '\u{2067}' => Class::Named("RLI"),
        '\u{2068}' => Class::Named("FSI"),
        '\u{2069}' => Class::Named("PDI"),
        // Hangul fillers, vowel separator, invisible operators, deprecated shaping controls, annotation, and the
        // layout controls of shorthand, hieroglyphs and music.
        '\u{115f}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{180e}'
        | '\u{2061}'..='\u{2064}'
        | '\u{206a}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => Class::Numbered,
        '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}'
        | '\u{180b}'..='\u{180d}'
        | '\u{180f}' => Class::Selector,
        '\u{e0001}' | '\u{e0020}'..='\u{e007f}' => Class::Tag,
        '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}' if exists(c) => Class::Jamo,
        _ if !exists(c) => Class::Unknown,
        _ if extends(c) => Class::Attached,
        _ if matches!(char_width(c), 1 | 2) => Class::Plain,
        _ => Class::Unknown,
    }
}

/// True for what is assigned, not for private use, and has an appearance.
fn exists(c: char) -> bool {
    match c {
        // Spaces, and the format characters that are drawn around or above numbers: the escaping below means "has no
        // ink of its own", which is not the question here.
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            true
        }
        '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' => true,
        '\u{110bd}' | '\u{110cd}' => true,
        _ => {
            // Not in front, because a mark in front is escaped for being one.
            let mut buffer = [b'a'; 5];
            let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
            std::str::from_utf8(&buffer[..length])
                .is_ok_and(|pair| pair.escape_debug().nth(1) == Some(c))
        }
    }
}

/// True in the scripts where U+200C and U+200D change the shape of letters.
fn is_shaped(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
        | '\u{a840}'..='\u{a8ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

fn is_drawn_ascii(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// One pass over a text. The state describes what has been kept so far, so that a second pass sees the same.
struct Scanner<'a> {
    text: &'a str,
    form: Form,
    out: String,
    /// Where the text begins that is kept as it is and not copied yet.
    pending: usize,
    /// The letter that a mark would belong to; none at the start of a line.
    base: Option<char>,
    /// The character before this one, when it is the base or attached to it.
    last: Option<char>,
    marks: u8,
    attached: u8,
    links: u8,
    /// How much of `out` is counted in `column`.
    measured: usize,
    column: usize,
}

impl<'a> Scanner<'a> {
    fn run(text: &'a str, form: Form) -> String {
        let breaks = form != Form::Line;
        if text
            .bytes()
            .all(|byte| is_drawn_ascii(byte) || (breaks && byte == b'\n'))
        {
            return text.to_owned();
        }
        let mut scanner = Self {
            text,
            form,
            out: String::with_capacity(text.len() + 16),
            pending: 0,
            base: None,
            last: None,
            marks: 0,
            attached: 0,
            links: 0,
            measured: 0,
            column: 0,
        };
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let drawn = bytes[at..]
                .iter()
                .take_while(|&&byte| is_drawn_ascii(byte))
                .count();
            if drawn > 0 {
                at += drawn;
                scanner.begin(char::from(bytes[at - 1]));
            } else if let Some(c) = text[at..].chars().next() {
                at = scanner.step(at, c);
            }
        }
        scanner.flush(at);
        scanner.out
    }

    /// Handles the character at `at` and those that belong to it; returns where the next one is.
    fn step(&mut self, at: usize, c: char) -> usize {
        let end = at + c.len_utf8();
        match class(c) {
            Class::Plain => {
                self.begin(c);
                end
            }
            Class::Attached => self.mark(at, c),
            Class::Jamo => {
                let joins = self.last.is_some_and(|last| continues(last, c));
                if joins && self.attached < MAX_ATTACHED {
                    self.attach(c);
                    end
                } else {
                    self.replace(at..end, NOT_DRAWABLE)
                }
            }
            Class::Joiner => {
                if self.joins(c, end) {
                    self.attach(c);
                    end
                } else {
                    self.leave_out(at..end)
                }
            }
            Class::Selector => self.selectors(at, c),
            Class::Tag => self.tags(at),
            Class::Named(name) => self.name(at..end, name),
            Class::Numbered => self.name(at..end, &format!("{:02X}", u32::from(c))),
            Class::Hint => self.leave_out(at..end),
            Class::Control => self.control(at, c),
            Class::Break => self.line_break(at, c),
            Class::Tab => self.tab(at),
            Class::Unknown => self.replace(at..end, NOT_DRAWABLE),
        }
    }

    fn mark(&mut self, at: usize, c: char) -> usize {
        let end = at + c.len_utf8();
        if self.base.is_none() {
            if self.form == Form::Json {
                return self.escape(at..end);
            }
            self.flush(at);
            self.out.push(CARRIER);
            self.begin(CARRIER);
        }
        if self.has_room(c, 0) {
            self.attach(c);
            return end;
        }
        let rest = self.text[end..]
            .chars()
            .take_while(|&c| matches!(class(c), Class::Attached));
        let end = end + rest.map(char::len_utf8).sum::<usize>();
        self.replace(at..end, NOT_DRAWABLE)
    }

    /// Whether `c` may be attached to the base, after `others` more.
    fn has_room(&self, c: char, others: u8) -> bool {
        let mark = u8::from(char_width(c) == 0);
        self.attached + others < MAX_ATTACHED && self.marks + mark <= MAX_MARKS
    }

    /// Whether the joiner `c`, with what follows at `end`, shapes anything. What follows must be something that is kept
    /// for certain, or a second pass would decide otherwise.
    fn joins(&self, c: char, end: usize) -> bool {
        let (Some(base), Some(last), Some(next)) =
            (self.base, self.last, self.text[end..].chars().next())
        else {
            return false;
        };
        if self.attached >= MAX_ATTACHED || matches!(last, ZWNJ | ZWJ) {
            return false;
        }
        if is_shaped(last) && is_shaped(next) {
            return match class(next) {
                Class::Plain => true,
                Class::Attached => self.has_room(next, 1),
                _ => false,
            };
        }
        c == ZWJ
            && self.links < MAX_LINKS
            && matches!(class(next), Class::Plain)
            && is_pictograph(base)
            && is_pictograph(next)
    }

    fn selectors(&mut self, at: usize, c: char) -> usize {
        let fits = self.attached == 0
            && self.base.is_some_and(|base| match c {
                '\u{fe0e}' | '\u{fe0f}' => base != ' ',
                '\u{fe00}'..='\u{fe0d}' => !base.is_ascii(),
                '\u{180b}'..='\u{180f}' => matches!(base, '\u{1820}'..='\u{18aa}'),
                // A variant of an ideograph; no terminal has the fonts, and 240 values can carry a message.
                _ => false,
            });
        let run = || {
            self.text[at..]
                .chars()
                .take_while(|&c| matches!(class(c), Class::Selector))
        };
        let (count, bytes) = run().fold((0_usize, 0), |(count, bytes), c| {
            (count + 1, bytes + c.len_utf8())
        });
        let end = at + bytes;
        let (start, hidden) = if fits {
            (at + c.len_utf8(), count - 1)
        } else {
            (at, count)
        };
        if fits {
            self.attach(c);
        }
        match hidden {
            0 => end,
            1 => self.leave_out(start..end),
            // More than one has no use but to hide something.
            _ => self.name(start..end, &format!("VS×{hidden}")),
        }
    }

    fn tags(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        if self.base == Some(BLACK_FLAG)
            && self.attached == 0
            && let Some(tags) = FLAG_TAGS.iter().find(|tags| rest.starts_with(**tags))
        {
            self.attach('\u{e007f}');
            return at + tags.len();
        }
        let mut said = String::from("TAG ");
        let mut end = at;
        for c in rest.chars().take_while(|&c| matches!(class(c), Class::Tag)) {
            end += c.len_utf8();
            let hidden = u8::try_from(u32::from(c) - 0xe_0000)
                .ok()
                .filter(|&byte| is_drawn_ascii(byte));
            said.extend(hidden.map(char::from));
        }
        self.name(at..end, said.trim_end())
    }

    fn control(&mut self, at: usize, c: char) -> usize {
        let end = at + 1;
        if c == '\r' {
            if self.text[end..].starts_with('\n') {
                // The line feed speaks for both.
                self.flush(at);
                self.pending = end;
                return end;
            }
            if self.form == Form::Json {
                // Only layout can have it unescaped.
                self.substitute(at..end, "\n");
                self.start_line();
                return end;
            }
        }
        let picture = if c == '\u{7f}' {
            '\u{2421}'
        } else {
            char::from_u32(0x2400 + u32::from(c)).unwrap_or(NOT_DRAWABLE)
        };
        self.replace(at..end, picture)
    }

    fn line_break(&mut self, at: usize, c: char) -> usize {
        let end = at + c.len_utf8();
        match self.form {
            Form::Line => self.replace(at..end, '\u{240a}'),
            Form::Json if c != '\n' => self.escape(at..end),
            Form::Block | Form::Json => {
                if c != '\n' {
                    self.substitute(at..end, "\n");
                }
                self.start_line();
                end
            }
        }
    }

    fn tab(&mut self, at: usize) -> usize {
        let end = at + 1;
        self.flush(at);
        let spaces = if self.form == Form::Line {
            1
        } else {
            let new = &self.out[self.measured..];
            let line = new.rfind('\n').map_or(new, |line| {
                self.column = 0;
                &new[line + 1..]
            });
            self.column += width(line);
            let spaces = TAB - self.column % TAB;
            self.column += spaces;
            self.measured = self.out.len() + spaces;
            spaces
        };
        self.substitute(at..end, &"    "[..spaces]);
        self.begin(' ');
        end
    }

    /// Takes note of a character that is kept and has columns of its own.
    fn begin(&mut self, c: char) {
        if self.last != Some(ZWJ) {
            self.links = 0;
        }
        // The quote of a JSON string must not carry a mark of the text in it.
        let carries = self.form != Form::Json || c != '"';
        self.base = carries.then_some(c);
        self.last = self.base;
        self.marks = 0;
        self.attached = 0;
    }

    /// Takes note of a character that is kept and belongs to the base.
    fn attach(&mut self, c: char) {
        self.attached += 1;
        self.marks += u8::from(matches!(class(c), Class::Attached) && char_width(c) == 0);
        self.links += u8::from(c == ZWJ);
        self.last = Some(c);
    }

    fn start_line(&mut self) {
        self.base = None;
        self.last = None;
        self.links = 0;
    }

    fn flush(&mut self, to: usize) {
        self.out.push_str(&self.text[self.pending..to]);
        self.pending = to;
    }

    fn substitute(&mut self, range: Range<usize>, with: &str) {
        self.flush(range.start);
        self.out.push_str(with);
        self.pending = range.end;
    }

    fn replace(&mut self, range: Range<usize>, with: char) -> usize {
        if self.form == Form::Json {
            return self.escape(range);
        }
        let end = range.end;
        self.substitute(range, with.encode_utf8(&mut [0; 4]));
        self.begin(with);
        end
    }

    fn name(&mut self, range: Range<usize>, name: &str) -> usize {
        if self.form == Form::Json {
            return self.escape(range);
        }
        let end = range.end;
        self.substitute(range, &format!("⟦{name}⟧"));
        self.begin('⟧');
        end
    }

    fn leave_out(&mut self, range: Range<usize>) -> usize {
        if self.form == Form::Json {
            return self.escape(range);
        }
        let end = range.end;
        self.substitute(range, "");
        end
    }

    fn escape(&mut self, range: Range<usize>) -> usize {
        let end = range.end;
        self.flush(range.start);
        for unit in self.text[range].encode_utf16() {
            // Writing to a `String` does not fail.
            let _ = write!(self.out, "\\u{unit:04x}");
        }
        self.pending = end;
        self.start_line();
        end
    }
}
