//! `sessions_history` (specification, chapter 4).
