//! Opens a forged log. The checked properties are in `tests/fuzzed/mod.rs` of the crate.

#![no_main]

#[path = "../../crates/register/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::log(data));
