//! The synchronisation primitives of the crate, in one place so that the model checker can replace them.
//!
//! Built with `--cfg loom`, every atomic, lock and published pointer below is loom's, and the tests in
//! `tests/loom.rs` explore their interleavings; otherwise they are the standard library's and `arc-swap`'s.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use std::sync::{Arc, PoisonError, TryLockError};

/// The lock if nobody holds it. What our locks guard is whole after every call, so a panic of a caller's thread
/// (poison) is no reason to stop.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The lock, once nobody else holds it; poison is ignored as in [`try_lock`].
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stands between two sequentially consistent accesses that must not pass each other.
///
/// In the real build it is nothing: the accesses themselves have that order. Loom knows sequential consistency
/// of fences only, and treats such accesses as acquire and release; the fence restores what they mean.
#[inline]
pub(crate) fn order_of_seq_cst_accesses() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// A value that one thread replaces while others read it without waiting.
#[cfg(not(loom))]
pub(crate) struct Snapshotted<T>(arc_swap::ArcSwap<T>);

#[cfg(not(loom))]
impl<T> Snapshotted<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    /// The value now. Holding the guard keeps it alive; it does not block a replacement.
    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<T>> {
        self.0.load()
    }

    pub(crate) fn store(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

/// Loom has no `ArcSwap`; a lock around the pointer has the same observable orders, one replacement at a time.
#[cfg(loom)]
pub(crate) struct Snapshotted<T>(loom::sync::RwLock<Arc<T>>);

#[cfg(loom)]
impl<T> Snapshotted<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(Arc::new(value)))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.0.read().expect("loom lock").clone()
    }

    pub(crate) fn store(&self, value: T) {
        *self.0.write().expect("loom lock") = Arc::new(value);
    }
}
