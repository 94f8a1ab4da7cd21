//! Sends an untrusted HTTP request. The checks are in `tests/fuzzed/mod.rs` of `jeton-server`.

#![no_main]

#[path = "../../../crates/server/tests/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::http_request(data));
