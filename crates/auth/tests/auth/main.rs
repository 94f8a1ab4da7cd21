//! Tests of the public API: access control, token files and usage.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

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
mod usage;
mod usage_file;
