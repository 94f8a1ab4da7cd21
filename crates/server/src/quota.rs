//! The counter quota of an access token. The counters that an operation may create are charged before it is
//! submitted.
//!
//! Only clients with a quota pay for the extra read of the cells. Invariants:
//! - A client creates no more counters than its quota allows, also with concurrent requests. A charge is
//!   refunded only after the engine reported that nothing was created.
//! - Changes of existing counters and retries are not charged.
//!
//! Two connections that create the same counter concurrently are both charged, and so is an operation whose
//! response was not awaited. Deleted and expired counters are not refunded: the quota limits creation, and
//! the creator is not stored.

use std::collections::{HashMap, HashSet};

use jeton_auth::{AuthContext, Quota};
use jeton_core::{Addition, BranchName, Cell, Change, ErrorCode, Operation};
use jeton_engine::{Ask, EngineError, OperationOutcome, PrepareError, PrepareResult, Request, Response};

use crate::service::{Service, read_value};

/// Whether cells exist, for the cells that operations may create.
#[derive(Clone, Default)]
struct Cells(HashMap<Cell, bool>);

/// Whether a change may create a cell.
fn creates(change: &Change) -> bool {
    !matches!(change, Change::Delete | Change::Check(_) | Change::Expire(_))
}

/// Charges the creation of counters, or returns the error of an exhausted quota.
fn charge(service: &Service, auth: &AuthContext, created: u64) -> Result<(), EngineError> {
    auth.take(Quota::Counters, created).map_err(|exhausted| {
        service.metrics.add_error(ErrorCode::Quota);
        EngineError::Withheld(exhausted.to_string())
    })
}

impl Cells {
    /// The cells changed by an operation, and the number of cells it creates.
    fn after(&self, operation: &Operation) -> (Self, u64) {
        let (mut after, mut created) = (Self::default(), 0);
        for (cell, change) in operation.changes() {
            let exists = after.0.get(cell).or_else(|| self.0.get(cell)).copied();
            if creates(change) {
                created += u64::from(exists == Some(false));
                after.0.insert(cell.clone(), true);
            } else if *change == Change::Delete && exists.is_some() {
                after.0.insert(cell.clone(), false);
            }
        }
        (after, created)
    }

    fn update(&mut self, after: Self) {
        self.0.extend(after.0);
    }
}

/// Prepares a branch if the quota allows all counters that it would create. They are charged at prepare,
/// whatever the outcome of the branch, because the client is not known when it is committed or aborted.
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
    charge(service, auth, created)?;
    let vote = service.engine.prepare_branch(name, additions).await;
    if !matches!(
        vote,
        Ok(PrepareResult::Prepared { fresh: true }) | Err(PrepareError::Refused(EngineError::Closed))
    ) {
        auth.give_back(Quota::Counters, created);
    }
    vote
}

/// Submits the requests that the quota allows, and rejects the others.
pub async fn submit_batch(service: &Service, auth: &AuthContext, requests: Vec<Request>) -> Vec<Response> {
    let operations = requests.iter().filter_map(Request::operation);
    let filled = operations.flat_map(Operation::changes).filter(|(_, change)| creates(change));
    let cells: HashSet<Cell> = filled.map(|(cell, _)| cell.clone()).collect();
    if cells.is_empty() {
        return service.submit_prehashed(requests).await;
    }
    let cells: Vec<Cell> = cells.into_iter().collect();
    let reads = cells.iter().cloned().map(Ask::Read).collect();
    let (mut existing, mut unread) = (Cells::default(), HashMap::new());
    for (cell, response) in cells.into_iter().zip(service.engine.submit_batch(reads).await) {
        match read_value(response) {
            Ok(value) => drop(existing.0.insert(cell, value.is_some())),
            Err(error) => drop(unread.insert(cell, error)),
        }
    }

    let (mut passed, mut rejections) = (Vec::new(), Vec::new());
    let (mut predicted, mut charged) = (existing.clone(), 0);
    let mut charge_operation = |operation: &Operation| {
        // A cell that cannot be read cannot be charged.
        if let Some(error) = operation.changes().find_map(|(cell, _)| unread.get(cell)) {
            return Err(error.clone());
        }
        let (after, created) = predicted.after(operation);
        charge(service, auth, created)?;
        predicted.update(after);
        charged += created;
        Ok(())
    };
    for request in requests {
        let rejection = request.operation().and_then(|operation| charge_operation(operation).err());
        if rejection.is_none() {
            passed.push(request);
        }
        rejections.push(rejection);
    }

    let responses = service.submit_prehashed(passed.clone()).await;
    let mut created = 0;
    for (request, response) in passed.iter().zip(&responses) {
        if let (Some(operation), Response::Applied(Ok(OperationOutcome::Fresh(result)))) =
            (request.operation(), response)
            && result.applied
        {
            let (after, new) = existing.after(operation);
            existing.update(after);
            created += new;
        }
    }
    // A refused operation may have been charged for a cell that a later one created, so the totals are
    // compared.
    auth.give_back(Quota::Counters, charged.saturating_sub(created));
    let mut responses = responses.into_iter();
    let mut next = || responses.next().unwrap_or(Response::Applied(Err(EngineError::Closed)));
    let in_order = rejections.into_iter();
    in_order
        .map(|rejection| rejection.map_or_else(&mut next, |error| Response::Applied(Err(error))))
        .collect()
}
