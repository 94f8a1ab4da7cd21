//! The log of two-phase commit, with group commit: a write returns when its record is durable.
//!
//! The file is preallocated and overwritten, so a sync has no change of size to record.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use tokio::sync::oneshot;

const BYTES: usize = 16 << 20;
const BLOCK: usize = 4096;

pub(crate) struct ForcedLog {
    ask: Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl ForcedLog {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        file.write_all_at(&vec![0; BYTES], 0)?;
        file.sync_all()?;
        let (ask, asked) = channel();
        let thread = std::thread::Builder::new().name("research-log".into());
        thread.spawn(move || write_all(&file, &asked)).context("no thread for a log")?;
        Ok(Self { ask })
    }

    /// Writes a record and waits until it is durable.
    pub(crate) async fn force(&self, record: Vec<u8>) -> Result<()> {
        let (tell, done) = oneshot::channel();
        self.ask.send((record, tell)).ok().context("the log has failed")?;
        done.await.context("the log has failed")
    }
}

/// One sync for all records that arrived during the last one. An error ends the thread, and waiting callers
/// get an error.
fn write_all(file: &File, asked: &Receiver<(Vec<u8>, oneshot::Sender<()>)>) {
    let mut at = 0;
    let mut block = Vec::with_capacity(BLOCK);
    while let Ok((record, tell)) = asked.recv() {
        block.clear();
        block.extend_from_slice(&record);
        let mut waiting = vec![tell];
        for (record, tell) in asked.try_iter() {
            block.extend_from_slice(&record);
            waiting.push(tell);
        }
        if at + block.len() > BYTES {
            at = 0;
        }
        if file.write_all_at(&block, at as u64).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        at += block.len();
        for tell in waiting {
            let _nobody_waits = tell.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn confirmed_records_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = ForcedLog::open(&path).unwrap();
        log.force(b"start".to_vec()).await.unwrap();
        log.force(b"outcome".to_vec()).await.unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(b"startoutcome"));
    }
}
