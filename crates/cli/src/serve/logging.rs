//! What the server tells while it runs: on standard error, so that standard output is for what was asked for.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, Settings};

/// Begins to tell, as the settings say.
pub fn begin(settings: &Settings) {
    let level = LevelFilter::from(settings.log_level.0);
    // It calls an error what is its daily work: a member that is away. What matters of it is told by our own.
    let of_raft = if level >= LevelFilter::DEBUG { level } else { LevelFilter::OFF };
    let wanted = Targets::new().with_default(level).with_target("openraft", of_raft);
    let log = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_target(false)
        .with_ansi(stderr().is_terminal());
    let registry = tracing_subscriber::registry();
    match settings.log_format {
        LogFormat::Text => registry.with(log.with_filter(wanted)).init(),
        LogFormat::Json => registry.with(log.json().with_filter(wanted)).init(),
    }
}
