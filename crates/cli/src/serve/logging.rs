//! The log of the server, on standard error. Standard output is for results.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, Settings};

/// Installs the subscriber with the level and format of the settings.
pub fn init(settings: &Settings) {
    let level = LevelFilter::from(settings.log_level.0);
    // openraft logs an unreachable member as an error. Important events are logged by our own code.
    let raft_level = if level >= LevelFilter::DEBUG { level } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(level).with_target("openraft", raft_level);
    let log = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_target(false)
        .with_ansi(stderr().is_terminal());
    let registry = tracing_subscriber::registry();
    match settings.log_format {
        LogFormat::Text => registry.with(log.with_filter(filter)).init(),
        LogFormat::Json => registry.with(log.json().with_filter(filter)).init(),
    }
}
