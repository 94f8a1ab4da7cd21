//! What the crate promises to a server and to the commands that manage tokens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod token_store;
mod common;
mod token_file;
mod token_file_format;
mod grants;
mod leaks;
mod bind_policy;
mod passes;
mod reload;
mod tokens;
mod usage_file;
