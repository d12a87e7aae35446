//! A connection to another process: handshake, calls, events.
