//! The synchronisation primitives of the crate, in one place so that loom can replace them.
//!
//! With `--cfg loom`, every atomic, lock and published pointer is loom's, and `tests/loom.rs` explores the
//! interleavings. Otherwise they are those of the standard library and `arc-swap`.

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

/// Takes the lock if it is free. Ignores poison: the data behind our locks is consistent after every call.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for the lock. Ignores poison, as [`try_lock`].
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Orders two sequentially consistent accesses under loom.
///
/// A no-op in the real build, where the accesses themselves have that order. Loom supports sequential
/// consistency for fences only and treats such accesses as acquire and release.
#[inline]
pub(crate) fn order_of_seq_cst_accesses() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// A value that one thread replaces while others read it without blocking.
#[cfg(not(loom))]
pub(crate) struct Snapshotted<T>(arc_swap::ArcSwap<T>);

#[cfg(not(loom))]
impl<T> Snapshotted<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    /// The current value. The guard keeps it alive and does not block a replacement.
    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<T>> {
        self.0.load()
    }

    pub(crate) fn store(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

/// Loom has no `ArcSwap`; a lock around the pointer allows the same observable orders.
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
