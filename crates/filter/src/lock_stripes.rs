//! Locks that make looking up and inserting one step for each id.
//!
//! The results of the single `fetch_or`s cannot elect a winner: of two threads that race on one id each may be
//! first on another word. So an id is checked and inserted under the lock of its stripe; different ids meet on
//! a stripe rarely.

use crate::key::Fingerprint;
use crate::sync::{self, Mutex, MutexGuard};

#[cfg(not(loom))]
const STRIPES_LOG2: u32 = 10;
/// One stripe is the hardest case for the model, and keeps it small.
#[cfg(loom)]
const STRIPES_LOG2: u32 = 0;

pub(crate) struct LockStripes(Box<[Mutex<()>]>);

impl LockStripes {
    pub(crate) fn new() -> Self {
        Self((0..1_usize << STRIPES_LOG2).map(|_| Mutex::new(())).collect())
    }

    /// Holds the stripe of an id.
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, ()> {
        let stripe = (u128::from(fingerprint.get()) << STRIPES_LOG2 >> 64) as usize;
        sync::lock(&self.0[stripe])
    }
}
