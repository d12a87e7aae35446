//! Width in terminal columns; the only owner of `unicode-width` and `unicode-segmentation`.
//!
//! Text is measured in pieces of at most two columns. A piece is a grapheme cluster, except that a cluster wider than
//! that (a conjunct of several letters, a chain of leading jamo) is taken apart at its letters: terminals give each of
//! them a cell of its own, and a line can then always be broken. The width of a text is the sum of its pieces, which is
//! what the drawing library counts too; a width of the whole text would not be (ligatures).
//! Absent on purpose: East Asian ambiguous width, which no terminal tells us.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The widest a piece gets.
const WIDEST: usize = 2;

/// Columns a clean text takes. A line break takes none.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.bytes().filter(|byte| !byte.is_ascii_control()).count();
    }
    graphemes(text).map(|(_, columns)| columns).sum()
}

/// Pieces that must not be split, with their widths: grapheme clusters of at most two columns.
pub fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    Pieces {
        rest: text,
        cluster: "",
    }
}

/// As [`graphemes`], from the end to the start.
pub(super) fn graphemes_back(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).rev().flat_map(|cluster| {
        let mut pieces: Vec<_> = Pieces {
            rest: cluster,
            cluster: "",
        }
        .collect();
        pieces.reverse();
        pieces
    })
}

/// True when `c` continues the cluster of an ordinary letter before it.
pub(super) fn extends(c: char) -> bool {
    continues('a', c)
}

/// True when there is no cluster edge between the two.
pub(super) fn continues(before: char, c: char) -> bool {
    let mut buffer = [0; 8];
    let head = before.encode_utf8(&mut buffer).len();
    let tail = c.encode_utf8(&mut buffer[head..]).len();
    std::str::from_utf8(&buffer[..head + tail])
        .is_ok_and(|pair| pair.graphemes(true).nth(1).is_none())
}

/// True when `c` may be a member of an emoji sequence held together by U+200D (`Extended_Pictographic`).
pub(super) fn is_pictograph(c: char) -> bool {
    // GB11 is the only rule that keeps a cluster together here, so the segmentation answers without a table of ours.
    let sequence: String = ['\u{2764}', '\u{200d}', c].into_iter().collect();
    c > '\u{a8}' && !extends(c) && sequence.graphemes(true).nth(1).is_none()
}

/// Columns of one character alone.
pub(super) fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

struct Pieces<'a> {
    rest: &'a str,
    /// What is left of a cluster that is too wide for one piece.
    cluster: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (&'a str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.cluster.is_empty() {
            let bytes = self.rest.as_bytes();
            let first = *bytes.first()?;
            if first.is_ascii_control()
                || (first.is_ascii() && bytes.get(1).is_none_or(u8::is_ascii))
            {
                let (piece, rest) = self.rest.split_at(1);
                self.rest = rest;
                return Some((piece, usize::from(!first.is_ascii_control())));
            }
            let cluster = self.rest.graphemes(true).next()?;
            self.rest = &self.rest[cluster.len()..];
            let columns = cluster.width();
            if columns <= WIDEST {
                return Some((cluster, columns));
            }
            self.cluster = cluster;
        }
        let (piece, cluster) = self.cluster.split_at(piece_end(self.cluster));
        self.cluster = cluster;
        Some((piece, piece.width().min(WIDEST)))
    }
}

/// Where the first piece of a wide cluster ends: before the next letter that is not joined
/// to it, or before what would make it too wide.
fn piece_end(cluster: &str) -> usize {
    let mut before = None;
    for (at, c) in cluster.char_indices() {
        let belongs = extends(c) || before == Some('\u{200d}');
        let fits = || cluster[..at + c.len_utf8()].width() <= WIDEST;
        if at > 0 && char_width(c) > 0 && !(belongs && fits()) {
            return at;
        }
        before = Some(c);
    }
    cluster.len()
}
