//! Bytes of a server, read as replies: what must hold for them is in `tests/common/fuzzed.rs` of the crate.

#![no_main]

#[path = "../../../crates/resp/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::fuzzed::reply(data));
