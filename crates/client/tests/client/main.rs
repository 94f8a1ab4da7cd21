//! The client against a real server, in this process, over real connections.

mod basics;
mod chance;
mod chaos;
mod outbox;
mod proxy;
mod retries;
mod server;
