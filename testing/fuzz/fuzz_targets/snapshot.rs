//! Reads untrusted bytes as the snapshot of a filter. The checks are in `tests/fuzzed/mod.rs` of
//! `forgetful-filter`.

#![no_main]

#[path = "../../../crates/filter/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::snapshot(data));
