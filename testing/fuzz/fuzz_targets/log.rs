//! Opens a log with changed bytes. The checks are in `tests/fuzzed/mod.rs` of `jeton-wal`.

#![no_main]

#[path = "../../../crates/wal/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::log(data));
