//! Once a second: reloads replaced tokens and certificates, logs storage errors, and saves the usage of
//! tokens.
//!
//! Usage is written when it changed and at shutdown. A crash loses at most the usage of the last second.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use jeton_auth::{Access, UsageFile, Used};

use super::NodeError;
use super::error::Explain;
use crate::Store;
use crate::tls::Tls;

const INTERVAL: Duration = Duration::from_secs(1);

/// The thread that reloads. It stops when this is dropped.
pub struct Reloader {
    until_dropped: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Reloader {
    /// Runs the last round and waits for its end.
    pub fn stop(self) {
        drop(self.until_dropped);
        // A panic was logged by its hook; shutdown continues.
        let _panicked = self.thread.join();
    }
}

struct UsageWriter {
    access: Arc<Access>,
    file: UsageFile,
    written: Vec<Used>,
    failed: bool,
}

impl UsageWriter {
    fn write_if_changed(&mut self) {
        let mut usage = self.access.used();
        usage.retain(|used| used.tables > 0 || used.counters > 0);
        if usage == self.written {
            return;
        }
        match self.file.write(&usage) {
            Ok(()) => (self.written, self.failed) = (usage, false),
            // Logged once, retried every second.
            Err(error) if !self.failed => {
                tracing::error!(%error, "the usage of tokens was not saved: a restart would lose it");
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

/// Starts the thread. Files are read there so that no connection waits for the disk.
pub fn start(
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
    engine: Store,
    usage: Option<UsageFile>,
) -> Result<Reloader, NodeError> {
    let (until_dropped, stop) = mpsc::channel();
    let run = move || {
        let mut usage = usage.map(|file| UsageWriter {
            access: access.clone(),
            file,
            written: Vec::new(),
            failed: false,
        });
        let mut storage_error = None;
        while stop.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            match access.reload_if_changed() {
                Ok(true) => tracing::info!("tokens reloaded"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "tokens not reloaded; the previous ones stay in force"),
            }
            match tls.as_ref().map(|tls| tls.reload_if_changed()) {
                Some(Ok(true)) => tracing::info!("certificate reloaded"),
                Some(Err(error)) => {
                    tracing::error!(%error, "certificate not reloaded; the previous one stays in use");
                }
                Some(Ok(false)) | None => {}
            }
            let now = engine.stats().last_error;
            if now != storage_error {
                match &now {
                    Some(error) => tracing::error!(%error, "storage error: writes will be rejected soon"),
                    None => tracing::info!("storage recovered"),
                }
                storage_error = now;
            }
            usage.iter_mut().for_each(UsageWriter::write_if_changed);
        }
        usage.iter_mut().for_each(UsageWriter::write_if_changed);
    };
    let thread = std::thread::Builder::new().name("jeton-reload".into()).spawn(run);
    let fix = "check the limit of threads: ulimit -u";
    let thread = thread.explain("the server could not start a thread", fix)?;
    Ok(Reloader { until_dropped, thread })
}
