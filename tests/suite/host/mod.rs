//! Who owns a state directory, and what goes between its owner and the others.

mod fake;
mod frames;
mod owner;
mod process;
mod remote;
mod wire;
