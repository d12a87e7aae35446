//! The browser as pure state: events in, effects out.
