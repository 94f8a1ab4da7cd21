//! The commands, most of them against a server that the test starts.

mod backup;
mod config;
mod counters;
mod doctor;
mod help;
mod import;
mod load;
#[path = "../program/mod.rs"]
mod program;
mod serve;
mod server;
mod shell;
mod tls;
mod token;
