//! Bytes of a log or a store, read as what they might be: what must hold is in `tests/fuzzed/mod.rs` of the crate.

#![no_main]

#[path = "../../../crates/core/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::entry(data));
