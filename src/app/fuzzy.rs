//! Fuzzy matching, in one place.

use crate::text::Untrusted;
use frizbee::{Config, Matcher};

/// Indices of the texts that match, best first; a blank needle matches all, in their order.
pub fn ranked(needle: &Untrusted, texts: &[impl AsRef<str>]) -> Vec<usize> {
    let needle = needle.raw().trim();
    if needle.is_empty() {
        return (0..texts.len()).collect();
    }
    Matcher::from_query(needle, &Config::default())
        .match_list(texts)
        .into_iter()
        .map(|hit| hit.index as usize)
        .collect()
}
