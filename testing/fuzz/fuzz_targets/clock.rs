//! Bytes of a stranger, read as stamps of a Bloom clock, as a session of them or as a saved clock: what must hold is in `tests/fuzzed/mod.rs` of
//! the crate.

#![no_main]

#[path = "../../../crates/clock/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::clock(data));
