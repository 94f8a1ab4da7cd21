//! A body of a stranger, sent to every route that takes one: what must hold is in `tests/fuzzed/mod.rs` of the crate.

#![no_main]

#[path = "../../../crates/server/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::http_body(data));
