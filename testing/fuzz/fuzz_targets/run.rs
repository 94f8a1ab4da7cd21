//! Opens an id index with changed bytes. The checks are in `tests/fuzzed/mod.rs` of `jeton-engine`.

#![no_main]

#[path = "../../../crates/engine/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::run(data));
