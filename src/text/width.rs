//! Width in terminal columns; the only owner of `unicode-width` and `unicode-segmentation`.

/// Columns a clean text takes.
pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Grapheme clusters with their widths.
pub fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    use unicode_segmentation::UnicodeSegmentation;
    text.graphemes(true).map(|g| (g, width(g)))
}
