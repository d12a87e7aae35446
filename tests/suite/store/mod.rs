//! Our own stores: transcripts, the state database, the client's database.

mod client;
mod database;
mod lists;
mod state;
mod transcript;
