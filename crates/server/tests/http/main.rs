//! The service over HTTP, against a real server with a real store, through real connections.

mod client;
mod counting;
mod world;
