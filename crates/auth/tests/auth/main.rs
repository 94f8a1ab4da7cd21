//! What the crate promises to a server and to the commands that manage tokens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod auth_context;
mod bind_policy;
mod common;
mod grants;
mod leaks;
mod reload;
mod token_file;
mod token_file_format;
mod token_store;
mod tokens;
mod usage_file;
