//! What goes over the wire: frames, methods, events, errors. No I/O.
//!
//! Frames are those of the gateway protocol; our own methods stand under `crosstalk.`. A [`methods::Request`] is both
//! the request of a front door and what is sent: its name is the method, its members are the params.

pub mod frames;
pub mod methods;
