//! Locks that make lookup and insert of one id atomic.
//!
//! The results of single `fetch_or`s do not determine a winner: each of two threads that race on an id may be
//! first on another word. So `check_and_insert` holds the lock of the id's stripe. Different ids rarely share
//! a stripe.

use crate::key::Fingerprint;
use crate::sync::{self, Mutex, MutexGuard};

#[cfg(not(loom))]
const STRIPES_LOG2: u32 = 10;
/// One stripe is the hardest case for loom, and the smallest.
#[cfg(loom)]
const STRIPES_LOG2: u32 = 0;

pub(crate) struct LockStripes(Box<[Mutex<()>]>);

impl LockStripes {
    pub(crate) fn new() -> Self {
        Self((0..1_usize << STRIPES_LOG2).map(|_| Mutex::new(())).collect())
    }

    /// Locks the stripe of an id.
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> MutexGuard<'_, ()> {
        let stripe = (u128::from(fingerprint.get()) << STRIPES_LOG2 >> 64) as usize;
        sync::lock(&self.0[stripe])
    }
}
