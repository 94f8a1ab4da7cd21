//! The limit of a token on counters: what an operation creates is taken from it before the operation is passed on.
//!
//! Only for tokens that have such a limit: what their operations may create is read first, which nobody else pays for. What must hold:
//! - *Never more*: a token with a limit creates no more counters than it may, whatever comes together. What is taken is given back only when the
//!   engine has said that nothing was created.
//! - *Charged is who creates*: to change a counter that is there costs nothing, nor does a retry.
//!
//! Two operations that create the same counter at the same instant, on two connections, are charged for it both; and so is one whose answer
//! nobody waited for. Counters that are deleted or end are not given back: the limit is on creating, and whose they were is not known.

use std::collections::{HashMap, HashSet};

use jeton_auth::{AuthContext, Quota};
use jeton_core::{Addition, BranchName, Cell, Change, ErrorCode, Operation};
use jeton_engine::{Ask, EngineError, OperationOutcome, PrepareError, PrepareResult, Request, Response};

use crate::service::Service;

/// Which cells hold something, as far as operations may create them.
#[derive(Clone, Default)]
struct Cells(HashMap<Cell, bool>);

/// Whether a change makes a cell hold something that may have been empty.
fn fills(change: &Change) -> bool {
    match change {
        Change::Add(_)
        | Change::AddWithin { .. }
        | Change::Set(_)
        | Change::Reset
        | Change::Put(_)
        | Change::Append(_) => true,
        Change::Delete | Change::Check(_) | Change::Expire(_) => false,
    }
}

impl Cells {
    /// The cells as they are after an operation, as far as they change, and how many it creates.
    fn after(&self, operation: &Operation) -> (Self, u64) {
        let (mut after, mut created) = (Self::default(), 0);
        for (cell, change) in operation.changes() {
            let is_there = after.0.get(cell).or_else(|| self.0.get(cell)).copied();
            if fills(change) {
                created += u64::from(is_there == Some(false));
                after.0.insert(cell.clone(), true);
            } else if *change == Change::Delete && is_there.is_some() {
                after.0.insert(cell.clone(), false);
            }
        }
        (after, created)
    }

    fn make(&mut self, after: Self) {
        self.0.extend(after.0);
    }
}

/// Holds a branch, if the token may create all the counters that it adds to and that are not there. They count as created when they are held, whatever
/// becomes of the branch: when it is settled, whose it was is not known.
pub async fn prepare_branch(
    service: &Service,
    pass: &AuthContext,
    name: &BranchName,
    additions: Vec<Addition>,
) -> Result<PrepareResult, PrepareError> {
    let cells: HashSet<Cell> = additions.iter().map(|one| one.cell.clone()).collect();
    let mut created = 0;
    for response in service.engine.submit_batch(cells.into_iter().map(Ask::Read).collect()).await {
        match response {
            Response::Read(Ok(value)) => created += u64::from(value.is_none()),
            Response::Read(Err(refusal)) | Response::Applied(Err(refusal)) => return Err(refusal.into()),
            other => unreachable!("a read is not answered with {other:?}"),
        }
    }
    if let Err(exhausted) = pass.take(Quota::Counters, created) {
        service.metrics.add_error(ErrorCode::Quota);
        return Err(EngineError::Withheld(exhausted.to_string()).into());
    }
    let vote = service.engine.prepare_branch(name, additions).await;
    if !matches!(
        vote,
        Ok(PrepareResult::Held { fresh: true }) | Err(PrepareError::Refused(EngineError::Closed))
    ) {
        pass.give_back(Quota::Counters, created);
    }
    vote
}

/// Does what the token may, and says of the rest why not.
pub async fn submit_batch(service: &Service, pass: &AuthContext, requests: Vec<Request>) -> Vec<Response> {
    let operations = requests.iter().filter_map(Request::operation);
    let filled = operations.flat_map(Operation::changes).filter(|(_, change)| fills(change));
    let cells: HashSet<Cell> = filled.map(|(cell, _)| cell.clone()).collect();
    if cells.is_empty() {
        return service.submit_prehashed(requests).await;
    }
    let cells: Vec<Cell> = cells.into_iter().collect();
    let reads = cells.iter().cloned().map(Ask::Read).collect();
    let (mut there, mut unread) = (Cells::default(), HashMap::new());
    for (cell, response) in cells.into_iter().zip(service.engine.submit_batch(reads).await) {
        match response {
            Response::Read(Ok(value)) => drop(there.0.insert(cell, value.is_some())),
            Response::Read(Err(refusal)) | Response::Applied(Err(refusal)) => {
                drop(unread.insert(cell, refusal));
            }
            other => unreachable!("a read is not answered with {other:?}"),
        }
    }

    let (mut passed, mut withheld) = (Vec::new(), Vec::new());
    let (mut expected, mut charged) = (there.clone(), 0);
    for request in requests {
        let refusal = match request.operation() {
            None => None,
            // What cannot be read cannot be charged for, and will hardly be written.
            Some(operation) => match operation.changes().find_map(|(cell, _)| unread.get(cell)) {
                Some(refusal) => Some(refusal.clone()),
                None => {
                    let (after, created) = expected.after(operation);
                    match pass.take(Quota::Counters, created) {
                        Ok(()) => {
                            expected.make(after);
                            charged += created;
                            None
                        }
                        Err(exhausted) => {
                            service.metrics.add_error(ErrorCode::Quota);
                            Some(EngineError::Withheld(exhausted.to_string()))
                        }
                    }
                }
            },
        };
        if refusal.is_none() {
            passed.push(request);
        }
        withheld.push(refusal);
    }

    let responses = service.submit_prehashed(passed.clone()).await;
    let mut created = 0;
    for (request, response) in passed.iter().zip(&responses) {
        if let (Some(operation), Response::Applied(Ok(OperationOutcome::Fresh(answer)))) =
            (request.operation(), response)
            && answer.applied
        {
            let (after, new) = there.after(operation);
            there.make(after);
            created += new;
        }
    }
    // One that was refused may have been charged for what a later one created: never more are created than were charged.
    pass.give_back(Quota::Counters, charged.saturating_sub(created));
    let mut responses = responses.into_iter();
    let answered = withheld.into_iter().map(|refusal| match refusal {
        Some(refusal) => Response::Applied(Err(refusal)),
        None => responses.next().unwrap_or(Response::Applied(Err(EngineError::Closed))),
    });
    answered.collect()
}
