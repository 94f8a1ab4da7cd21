//! Reads untrusted text as configuration. The checks are in `tests/fuzzed/mod.rs` of `jeton-cli`.

#![no_main]

/// The modules of `jeton-cli`, which is not a library.
#[path = "../../../crates/cli/src"]
#[allow(dead_code, reason = "commands use the rest")]
mod cli {
    pub mod cli_error;
    pub mod config;
    pub mod output;
}
#[path = "../../../crates/cli/tests/fuzzed/mod.rs"]
mod fuzzed;

use cli::{cli_error, config, output};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::config(data));
