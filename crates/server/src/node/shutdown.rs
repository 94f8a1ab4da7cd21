//! Signals: the first SIGTERM or SIGINT starts an orderly shutdown, the second ends the process.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::NodeError;
use super::error::Explain;

/// Shells report a process ended by signal `n` as exit code 128 + `n`.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Returns a receiver that becomes true at the first signal. The second signal ends the process.
pub fn on_signal() -> Result<watch::Receiver<bool>, NodeError> {
    let handler = |kind| {
        let fix = "check the limit of open files: ulimit -n";
        signal(kind).explain("the signal handlers were not installed", fix)
    };
    let (mut term, mut int) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = term.recv() => SignalKind::terminate().as_raw_value(),
                _ = int.recv() => SignalKind::interrupt().as_raw_value(),
            };
            if sender.send_replace(true) {
                // Safe at any time: every acknowledged operation is in the log.
                std::process::exit(SIGNAL_EXIT_BASE + number);
            }
            tracing::info!("stopping after the requests in flight; a second signal stops at once");
        }
    });
    Ok(receiver)
}
