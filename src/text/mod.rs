//! Making text safe and measuring it: the one choke point between text from outside and anything a person reads.
//!
//! Text that came from an agent, a file or the wire is an [`Untrusted`] until [`clean`] (one line) or [`clean_block`]
//! (many lines) has made it a [`Clean`]. Drawing and printing functions take [`Clean`], nothing else from outside.
//! Absent on purpose: colours, columns of a particular view, and any way to turn a `&str` from outside into [`Clean`]
//! without the cleaning.

mod clean;
mod clip;
pub mod mask;
mod width;
mod wrap;

pub use clean::{clean, clean_block, clean_str, escape_json};
pub use clip::{clip, clip_middle};
pub use width::{graphemes, width};
pub use wrap::wrap;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Text from an agent, a file or the wire, exactly as it came. It has no `Display`: the only ways out are
/// [`clean`], [`clean_block`] and [`Untrusted::raw`] (for engines and stores, which pass text on unchanged).
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted(String);

impl Untrusted {
    /// Wraps text from outside.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text as it came. Never for a sink: a test counts the callers in `ui`, `tui` and `cli`.
    pub fn raw(&self) -> &str {
        &self.0
    }
    /// The text as it came, owned. See [`Untrusted::raw`].
    pub fn into_raw(self) -> String {
        self.0
    }
    /// True when there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// True when there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Shown on one line: control characters and tricks become visible symbols.
    pub fn clean(&self) -> Clean {
        clean(self)
    }
    /// Shown on several lines: as [`Untrusted::clean`], with line breaks kept and tabs expanded.
    pub fn clean_block(&self) -> Clean {
        clean_block(self)
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Debug` of a string escapes control characters; cleaning covers the rest (bidi, zero width).
        write!(f, "Untrusted({:?})", clean(self).as_str())
    }
}

/// Text that can be drawn or printed: no control characters (but `\n` after [`clean_block`]), no escape sequences,
/// no bidirectional or zero-width tricks, no more than a few combining marks on a cell.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clean(String);

impl Clean {
    /// Text of our own program.
    pub const fn empty() -> Self {
        Self(String::new())
    }
    /// Text of our own program, fixed at compile time.
    pub fn fixed(text: &'static str) -> Self {
        Self(text.to_owned())
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
    /// Appends clean text.
    pub fn push(&mut self, other: &Clean) {
        self.0.push_str(&other.0);
    }
    /// The lines of a block.
    pub fn lines(&self) -> impl Iterator<Item = Clean> + '_ {
        self.0.split('\n').map(|line| Clean(line.to_owned()))
    }
    /// A part of clean text is clean. `range` must lie on character edges.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Clean {
        Clean(self.0.get(range).unwrap_or_default().to_owned())
    }
    /// Only for [`clean_format!`](crate::clean_format) and this module: the arguments were checked by [`Safe`].
    #[doc(hidden)]
    pub fn from_safe_format(arguments: fmt::Arguments<'_>) -> Self {
        Self(arguments.to_string())
    }
}

impl fmt::Display for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl AsRef<str> for Clean {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Clean {
    fn from(text: &'static str) -> Self {
        Self::fixed(text)
    }
}

/// What may stand in a [`clean_format!`](crate::clean_format): clean text, numbers and our own fixed words.
pub trait Safe: fmt::Display {}
impl Safe for Clean {}
impl Safe for &Clean {}
impl Safe for &'static str {}
impl Safe for char {}
macro_rules! safe_numbers { ($($t:ty)*) => { $(impl Safe for $t {} impl Safe for &$t {})* } }
safe_numbers!(u8 u16 u32 u64 usize i32 i64 f32 f64);

/// Checks at compile time that a value may be shown; see [`clean_format!`](crate::clean_format).
#[doc(hidden)]
pub fn safe<T: Safe>(value: T) -> T {
    value
}

/// `format!` that yields [`Clean`]: every argument must be [`Safe`].
#[macro_export]
macro_rules! clean_format {
    ($format:literal $(, $argument:expr)* $(,)?) => {
        $crate::text::Clean::from_safe_format(format_args!($format $(, $crate::text::safe($argument))*))
    };
}
