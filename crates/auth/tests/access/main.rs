//! What the crate promises to a server and to the commands that manage tokens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod book;
mod common;
mod file;
mod format;
mod grants;
mod leaks;
mod listening;
mod passes;
mod reload;
mod tokens;
mod used;
