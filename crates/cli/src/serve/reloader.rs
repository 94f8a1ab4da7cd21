//! Looks once a second whether tokens or certificates were replaced, whether the store has trouble, and what tokens have created.
//!
//! What tokens have created is written down when it is another than before, and at the end: a crash forgets what they created within the
//! last second or so, and nothing else.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use jeton_auth::{Access, UsageFile, Used};
use jeton_engine::Engine;
use jeton_server::tls::Tls;

use crate::cli_error::CliError;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Looks until this is dropped.
pub struct Reloader {
    until_dropped: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Reloader {
    /// Looks for the last time, and comes back when that is done.
    pub fn end(self) {
        drop(self.until_dropped);
        // If it panicked, that was told; what it would have done next is not worth a panic here.
        let _panicked = self.thread.join();
    }
}

/// What tokens have created, and where that is written down.
struct UsageWriter {
    access: Arc<Access>,
    file: UsageFile,
    written: Vec<Used>,
    failed: bool,
}

impl UsageWriter {
    fn look(&mut self) {
        let mut used = self.access.used();
        used.retain(|used| used.tables > 0 || used.counters > 0);
        if used == self.written {
            return;
        }
        match self.file.write(&used) {
            Ok(()) => (self.written, self.failed) = (used, false),
            // Told once, and tried every second.
            Err(error) if !self.failed => {
                tracing::error!(%error, "what tokens have created cannot be written down: a restart would forget it");
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

/// Begins to look. A thread of its own: files are read without keeping a client waiting.
pub fn begin(
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
    engine: Arc<Engine>,
    used: Option<UsageFile>,
) -> Result<Reloader> {
    let (until_dropped, over) = mpsc::channel();
    let watch = move || {
        let mut ledger =
            used.map(|file| UsageWriter { access: access.clone(), file, written: Vec::new(), failed: false });
        let mut trouble = None;
        while over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            match access.reload_if_changed() {
                Ok(true) => tracing::info!("the file of tokens was replaced, and is in force"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "the tokens from before stay in force"),
            }
            match tls.as_ref().map(|tls| tls.reload_if_changed()) {
                Some(Ok(true)) => tracing::info!("the certificate was replaced, and is in use"),
                Some(Err(error)) => tracing::error!(%error, "the certificate from before stays in use"),
                Some(Ok(false)) | None => {}
            }
            let now = engine.stats().trouble;
            if now != trouble {
                match &now {
                    Some(why) => {
                        tracing::error!(%why, "nothing can be stored: writes will be refused before long")
                    }
                    None => tracing::info!("the store has no trouble any more"),
                }
                trouble = now;
            }
            ledger.iter_mut().for_each(UsageWriter::look);
        }
        ledger.iter_mut().for_each(UsageWriter::look);
    };
    let thread = std::thread::Builder::new().name("jeton-watch".into()).spawn(watch).map_err(|why| {
        CliError::of(why, "the server could not start a thread", "see how many may be started: ulimit -u")
    })?;
    Ok(Reloader { until_dropped, thread })
}
