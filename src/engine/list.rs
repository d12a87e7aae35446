//! `sessions_list` (specification, chapter 3).
