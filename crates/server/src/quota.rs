//! The counter quota of an access token.
//!
//! The shard charges an operation when it decides it, so concurrent creations of one counter are charged
//! once, and replays and refusals never. A branch is charged before it is prepared, and refunded if it is not
//! prepared or is aborted. Invariant: a client creates no more counters than its quota allows, also with
//! concurrent requests.
//!
//! Charges of branches are in memory: a branch that is aborted after a restart is not refunded. Deleted and
//! expired counters are not refunded: the quota limits creation, and the creator is not stored.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jeton_auth::{AuthContext, Quota};
use jeton_core::{Addition, BranchName, Cell};
use jeton_engine::{Ask, CreationQuota, EngineError, PrepareError, PrepareResult};

use crate::service::{Service, read_value};

#[derive(Debug)]
pub struct CounterQuota(pub AuthContext);

impl CreationQuota for CounterQuota {
    fn take(&self, counters: u64) -> Result<(), String> {
        self.0.take(Quota::Counters, counters).map_err(|exhausted| exhausted.to_string())
    }
}

/// The charge of one request to prepare a branch.
#[derive(Debug)]
struct Charge {
    auth: AuthContext,
    counters: AtomicU64,
}

impl Charge {
    /// Refunds it, once.
    fn refund(&self) {
        self.auth.give_back(Quota::Counters, self.counters.swap(0, Ordering::Relaxed));
    }
}

/// The charges of branches that are being prepared, or are prepared.
#[derive(Debug, Default)]
pub struct BranchCharges(Mutex<HashMap<BranchName, Vec<Arc<Charge>>>>);

impl BranchCharges {
    fn charges(&self) -> MutexGuard<'_, HashMap<BranchName, Vec<Arc<Charge>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the charges of a branch that was committed.
    pub fn keep(&self, name: &BranchName) {
        self.charges().remove(name);
    }

    /// Refunds the charges of a branch that was aborted.
    pub fn refund(&self, name: &BranchName) {
        self.charges().remove(name).iter().flatten().for_each(|charge| charge.refund());
    }

    /// Refunds a charge of a branch that was not prepared by it.
    fn refund_one(&self, name: &BranchName, charge: &Arc<Charge>) {
        charge.refund();
        let mut all = self.charges();
        if let Some(charges) = all.get_mut(name) {
            charges.retain(|other| !Arc::ptr_eq(other, charge));
            if charges.is_empty() {
                all.remove(name);
            }
        }
    }
}

/// Prepares a branch if the quota allows all counters that it would create.
pub async fn prepare_branch(
    service: &Service,
    auth: &AuthContext,
    name: &BranchName,
    additions: Vec<Addition>,
) -> Result<PrepareResult, PrepareError> {
    let cells: HashSet<Cell> = additions.iter().map(|one| one.cell.clone()).collect();
    let mut created = 0;
    for response in service.engine.submit_batch(cells.into_iter().map(Ask::Read).collect()).await {
        created += u64::from(read_value(response)?.is_none());
    }
    CounterQuota(auth.clone()).take(created).map_err(EngineError::Withheld)?;
    let charge = Arc::new(Charge { auth: auth.clone(), counters: AtomicU64::new(created) });
    // Before the prepare, so that an abort that follows it finds the charge.
    service.branch_charges.charges().entry(name.clone()).or_default().push(charge.clone());
    let vote = service.engine.prepare_branch(name, additions).await;
    if !matches!(
        vote,
        Ok(PrepareResult::Prepared { fresh: true }) | Err(PrepareError::Refused(EngineError::Closed))
    ) {
        service.branch_charges.refund_one(name, &charge);
    }
    vote
}
