//! `agents_list` (specification, chapter 11).
