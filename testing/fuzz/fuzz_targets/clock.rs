//! Decodes untrusted bytes as a stamp or a session. The checks are in `tests/fuzzed/mod.rs` of `bloom-clock`.

#![no_main]

#[path = "../../../crates/clock/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::clock(data));
