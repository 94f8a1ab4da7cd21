//! The counter quota of an access token.
//!
//! The shard charges an operation or a branch when it decides it, so concurrent creations of one counter by
//! operations are charged once, and replays and refusals never. A branch is charged when it is prepared. When
//! it has ended, it is refunded the counters that it did not create: all of them if it was aborted, and those
//! that another operation or branch created first. Counters are counted without a quota too, because the
//! operator may set one later. Invariant: a client creates no more counters than its quota allows, also with
//! concurrent requests.
//!
//! Charges of prepared branches are in memory: a branch that ends after a restart is not refunded. Deleted
//! and expired counters are not refunded: the quota limits creation, and the creator is not stored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jeton_auth::{AuthContext, Quota};
use jeton_core::BranchName;
use jeton_engine::CreationQuota;

/// Charges operations.
#[derive(Debug)]
pub struct CounterQuota(pub AuthContext);

impl CreationQuota for CounterQuota {
    fn take(&self, counters: u64) -> Result<(), String> {
        take(&self.0, counters)
    }

    fn give_back(&self, counters: u64) {
        self.0.give_back(Quota::Counters, counters);
    }
}

fn take(auth: &AuthContext, counters: u64) -> Result<(), String> {
    auth.take(Quota::Counters, counters).map_err(|exhausted| exhausted.to_string())
}

/// Charges the parts of a branch that a client prepares.
#[derive(Debug)]
struct PrepareQuota {
    auth: AuthContext,
    charge: Arc<BranchCharge>,
}

impl CreationQuota for PrepareQuota {
    fn take(&self, counters: u64) -> Result<(), String> {
        take(&self.auth, counters)?;
        lock(&self.charge.taken).push((self.auth.clone(), counters));
        Ok(())
    }

    /// Of what this client has taken for the branch.
    fn give_back(&self, counters: u64) {
        let mut left = counters;
        lock(&self.charge.taken).retain_mut(|(auth, taken)| {
            if auth.name() == self.auth.name() {
                let returned = left.min(*taken);
                *taken -= returned;
                left -= returned;
                auth.give_back(Quota::Counters, returned);
            }
            *taken > 0
        });
    }
}

/// The charge of a branch.
#[derive(Debug, Default)]
struct BranchCharge {
    /// What was taken from each client for a part of the branch.
    taken: Mutex<Vec<(AuthContext, u64)>>,
    /// Number of counters that the commit has created.
    created: AtomicU64,
}

impl CreationQuota for BranchCharge {
    /// Not called: nothing is taken when a branch ends.
    fn take(&self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn created(&self, counters: u64) {
        self.created.fetch_add(counters, Ordering::Relaxed);
    }
}

/// The charges of branches that are being prepared, or are prepared.
#[derive(Debug, Default)]
pub struct BranchCharges(Mutex<HashMap<BranchName, Arc<BranchCharge>>>);

impl BranchCharges {
    /// The quota for a request to prepare a branch. [`remove_unused`](Self::remove_unused) follows it.
    pub fn begin(&self, name: &BranchName, auth: &AuthContext) -> Arc<dyn CreationQuota> {
        let charge = lock(&self.0).entry(name.clone()).or_default().clone();
        Arc::new(PrepareQuota { auth: auth.clone(), charge })
    }

    /// Forgets a branch for which nothing was taken.
    pub fn remove_unused(&self, name: &BranchName) {
        let mut charges = lock(&self.0);
        if charges.get(name).is_some_and(|charge| lock(&charge.taken).is_empty()) {
            charges.remove(name);
        }
    }

    /// Counts what the commit of a branch creates; `None` if nothing was taken for it.
    pub fn finishing(&self, name: &BranchName) -> Option<Arc<dyn CreationQuota>> {
        lock(&self.0).get(name).map(|charge| charge.clone() as Arc<dyn CreationQuota>)
    }

    /// Refunds what a branch that has ended did not create.
    pub fn settle(&self, name: &BranchName) {
        let Some(charge) = lock(&self.0).remove(name) else { return };
        let mut created = charge.created.load(Ordering::Relaxed);
        for (auth, taken) in lock(&charge.taken).drain(..) {
            let kept = taken.min(created);
            created -= kept;
            auth.give_back(Quota::Counters, taken - kept);
        }
    }
}

/// No code panics while a lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
