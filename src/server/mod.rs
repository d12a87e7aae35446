//! Puts any backend on the wire.
