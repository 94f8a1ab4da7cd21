//! Looks once a second whether tokens or certificates were replaced, and whether the store has trouble.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Result;
use jeton_access::Access;
use jeton_engine::Engine;
use jeton_server::tls::Tls;

use crate::failure::Failure;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Looks until this is dropped.
pub struct Watching {
    _until_dropped: mpsc::Sender<()>,
}

/// Begins to look. A thread of its own: files are read without keeping a client waiting.
pub fn begin(access: Arc<Access>, tls: Option<Arc<Tls>>, engine: Arc<Engine>) -> Result<Watching> {
    let (until_dropped, over) = mpsc::channel();
    let watch = move || {
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
        }
    };
    std::thread::Builder::new().name("jeton-watch".into()).spawn(watch).map_err(|why| {
        Failure::of(why, "the server could not start a thread", "see how many may be started: ulimit -u")
    })?;
    Ok(Watching { _until_dropped: until_dropped })
}
