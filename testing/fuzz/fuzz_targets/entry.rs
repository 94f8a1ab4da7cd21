//! Decodes untrusted bytes as a log entry or a stored row. The checks are in `tests/fuzzed/mod.rs` of
//! `jeton-core`.

#![no_main]

#[path = "../../../crates/core/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::entry(data));
