//! What a node knows of the log of its stripe: the state after the last durable frame, and the bytes that no
//! checkpoint contains.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jeton_register::Slot;
use jeton_wal::Error as LogError;

use crate::chain::Chain;

/// The most bytes of frames that no checkpoint contains. Beyond it writes are refused.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// No panic leaves the values inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct DurableLog {
    chain: Mutex<Chain>,
    /// Bytes of the frames since the checkpoint that the log was read from, and those of them that a later
    /// checkpoint contains.
    bytes: AtomicU64,
    trimmed_bytes: AtomicU64,
    /// The number of the next object of this term.
    next_object: AtomicU32,
    /// Whether checkpoints are being uploaded.
    has_uploader: AtomicBool,
}

impl DurableLog {
    pub fn new(chain: Chain, bytes: u64) -> Self {
        Self {
            chain: Mutex::new(chain),
            bytes: AtomicU64::new(bytes),
            trimmed_bytes: AtomicU64::new(0),
            next_object: AtomicU32::new(0),
            has_uploader: AtomicBool::new(false),
        }
    }

    /// The node has claimed the stripe. Owners before may have trimmed the log since it was opened, so what
    /// is left is due for a checkpoint, but no reason to refuse writes.
    pub fn own(&self, claimed: &Chain) {
        *lock(&self.chain) = claimed.clone();
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.trimmed(bytes.saturating_sub(LOG_BYTES_MAX / 2));
    }

    /// A follower has applied a frame of this many bytes.
    pub fn follow(&self, chain: &Chain, frame_bytes: usize) {
        *lock(&self.chain) = chain.clone();
        self.bytes.fetch_add(frame_bytes as u64, Ordering::Relaxed);
    }

    /// The frame of a slot is durable.
    pub fn accept(&self, slot: Slot, frame: &[u8]) {
        let mut chain = lock(&self.chain);
        chain.accept(slot, frame).expect("the owner wrote the frame after the one before it");
        self.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
    }

    /// The state after the last durable frame, and the bytes of frames up to there.
    pub fn state(&self) -> (Chain, u64) {
        let chain = lock(&self.chain);
        (chain.clone(), self.bytes.load(Ordering::Relaxed))
    }

    /// The log is trimmed for these bytes of frames.
    pub fn trimmed(&self, bytes: u64) {
        self.trimmed_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Bytes of the frames that no checkpoint contains.
    pub fn untrimmed_bytes(&self) -> u64 {
        let trimmed = self.trimmed_bytes.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed).saturating_sub(trimmed)
    }

    /// Refuses writes if checkpoints lag far behind.
    pub fn check_space(&self) -> Result<(), LogError> {
        match self.untrimmed_bytes() {
            bytes if bytes > LOG_BYTES_MAX => {
                Err(LogError::Full(format!("{bytes} bytes of the log of the stripe are in no checkpoint")))
            }
            _ => Ok(()),
        }
    }

    /// A number for an object, used once in a term.
    pub fn next_object(&self) -> u32 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins or ends uploads. A deletion of one uploader could concern objects of another one.
    pub fn set_uploader(&self, present: bool) {
        let had = self.has_uploader.swap(present, Ordering::SeqCst);
        assert!(!(had && present), "a stripe has one uploader of checkpoints at a time");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::Deployment;

    #[test]
    fn a_log_without_checkpoints_refuses_writes() {
        let deployment = Deployment::new(1, [0; 16], [0; 16]).unwrap();
        let log = DurableLog::new(deployment.chain(deployment.stripe(0).unwrap()), LOG_BYTES_MAX + 1);
        assert!(matches!(log.check_space(), Err(LogError::Full(_))));
        log.trimmed(1);
        assert_eq!((log.check_space(), log.untrimmed_bytes()), (Ok(()), LOG_BYTES_MAX));
    }
}
