//! Sends commands over several connections. The checks are in `tests/fuzzed/session.rs` of `jeton-server`.

#![no_main]

#[path = "../../../crates/server/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::resp_session(data));
