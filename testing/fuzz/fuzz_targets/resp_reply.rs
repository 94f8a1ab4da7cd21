//! Parses untrusted bytes as RESP replies. The checks are in `tests/common/fuzzed.rs` of `jeton-resp`.

#![no_main]

#[path = "../../../crates/resp/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::fuzzed::reply(data));
