//! When to stop: SIGTERM and SIGINT once for a good end, twice for any end.

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cli_error::CliError;

/// What a shell adds to the number of a signal that ended a process.
const BY_SIGNAL: i32 = 128;

/// Becomes true at the first signal. At the second the process ends.
pub fn listen() -> Result<watch::Receiver<bool>> {
    let of = |kind| {
        signal(kind).map_err(|why| {
            CliError::of(why, "the server cannot hear signals", "see how many files may be open: ulimit -n")
        })
    };
    let (mut term, mut int) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
    let (stopping, stop) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = term.recv() => SignalKind::terminate().as_raw_value(),
                _ = int.recv() => SignalKind::interrupt().as_raw_value(),
            };
            if stopping.send_replace(true) {
                // Whoever asks twice does not want to wait. What was acknowledged is in the log.
                std::process::exit(BY_SIGNAL + number);
            }
            tracing::info!("stopping when what is under way is answered; a second signal ends it at once");
        }
    });
    Ok(stop)
}
