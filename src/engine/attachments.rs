//! Attachments of a spawn (specification, chapter 9).
