//! The command line from outside: what is typed, what comes out, what it ends with.

mod errors;
mod output;
mod work;
mod world;
