//! What the server tells while it runs: on standard error, so that standard output is for what was asked for.

use std::io::{IsTerminal, stderr};

use crate::config::{LogFormat, Settings};

/// Begins to tell, as the settings say.
pub fn begin(settings: &Settings) {
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_max_level(settings.log_level.0)
        .with_target(false)
        .with_ansi(stderr().is_terminal());
    match settings.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
