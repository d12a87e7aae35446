//! From what a caller writes to a session: keys, ids, labels, and whether the caller may see it (§2.5, chapter 13).
