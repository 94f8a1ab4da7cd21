//! Branches of transactions: this server as a participant of two-phase commit.
//!
//! The response to a prepare is the vote: 200 is *yes*; anything else is *no* or unknown, and the coordinator
//! aborts the branch. All three requests are idempotent.
//!
//! What must hold: a prepare requires the right to add in every table of the branch. Commit, abort and list
//! require the right to administer the server: a coordinator also finishes branches of other coordinators, in
//! any table, and the name of a finished branch does not reveal its tables.

use jeton_auth::Right;
use jeton_core::limits::ADDITIONS_MAX;
use jeton_core::{Addition, BranchError, BranchName, BranchOutcome, Catalog, Change};
use jeton_engine::{FinishResult, PrepareResult, PreparedBranchInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::change_body::{ChangeBody, ChangeKind};
use super::json;
use super::problem::{ErrorCode, HttpResult, Problem, ProblemBody};
use super::request_context::RequestContext;

const LISTED_MAX: usize = 10_000;

/// Maximum number of listed additions of a branch.
const HOLDS_MAX: usize = 32;

/// The detail of a timeout.
const STATE_UNKNOWN: &str =
    "the request did not complete within the request timeout, and the state of the branch is unknown: retry";

/// The additions of a branch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"operations": [
    {"table": "stock", "row": "apples", "delta": -5, "min": 0}, {"table": "sold", "row": "apples", "delta": 5}
]}))]
pub struct BranchBody {
    /// Up to 256 additions in any tables, with `table` and without `id`. Bounds apply to the counter after
    /// the whole branch.
    pub operations: Vec<ChangeBody>,
}

/// The state of a branch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branch": "order-4711", "state": "held", "fresh": true}))]
pub struct BranchDone {
    /// The name of the branch.
    branch: String,
    /// held, committed or aborted.
    state: &'static str,
    /// Whether this request changed the state.
    fresh: bool,
}

/// The prepared branches.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branches": [{"branch": "order-4711", "age_ms": 12, "operations": 2, "holds": ["stock/apples: -5", "sold/apples: +5"]}], "more": false}))]
pub struct BranchList {
    /// The branches, oldest first.
    branches: Vec<BranchItem>,
    /// Whether the list is truncated.
    more: bool,
}

/// A prepared branch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BranchItem {
    /// The name of the branch.
    branch: String,
    /// Time since the prepare in milliseconds.
    age_ms: u64,
    /// Number of additions.
    operations: usize,
    /// Up to 32 of the additions as text, in any order.
    holds: Vec<String>,
}

/// Prepares a branch of a transaction; the response is the vote.
///
/// After a 200 the additions are reserved: no client sees them yet, and a commit always succeeds, because the
/// server rejects changes that would leave no room for them. After any other response, and after none, the
/// coordinator must abort the branch. A repeated prepare gets the same response, with `fresh` false.
#[utoipa::path(
    put, path = "/v1/branches/{branch}", operation_id = "holdBranch", tag = "branches", request_body = BranchBody,
    params(("branch" = String, Path, description = "The name of the branch: 1 to 200 bytes of text, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "The branch is prepared: the vote is yes."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "bad-operation: the branch is invalid."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to add in one of the tables."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "beyond-bound, overflow, not-a-counter: the vote is no. branch-settled: the branch has finished with the outcome in `ending`."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "id-mismatch: another branch is prepared under this name."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "held: another transaction has reserved the range. busy, full: retry later."))
)]
pub async fn put(mut request: RequestContext) -> HttpResult {
    let (text, name) = named(&request)?;
    request.no_key()?;
    let body: BranchBody = request.json().await?;
    if body.operations.len() > ADDITIONS_MAX {
        return Err(BranchError::TooMany.into());
    }
    request.spend(body.operations.len().max(1))?;
    let steps = body.operations.into_iter().enumerate();
    let additions = steps.map(|(at, step)| {
        addition(&request, step).map_err(|problem| problem.at(&format!("operations[{at}]")))
    });
    let additions = additions.collect::<Result<_, _>>()?;
    let (service, auth) = (request.app.service.clone(), request.auth.clone());
    let vote = async move { service.prepare_branch_as(&auth, &name, additions).await };
    match request.app.complete(STATE_UNKNOWN, vote).await?? {
        PrepareResult::Prepared { fresh } => Ok(done(text, "held", fresh)),
        PrepareResult::Finished(ending) => Err(settled(ending)),
    }
}

fn addition(request: &RequestContext, mut step: ChangeBody) -> Result<Addition, Problem> {
    let table = step.take_table()?;
    request.may(&table, Right::Add)?;
    if step.op != ChangeKind::Add || step.id.is_some() {
        return Err(Problem::bad_json("a branch has additions only, and its name is the only id"));
    }
    let table = request.service().engine.table(&table)?;
    let (cell, parsed) = step.resolve(request, &table)?;
    match parsed.change {
        Change::Add(delta) => Ok(Addition { cell, delta, min: None, max: None }),
        Change::AddWithin { delta, min, max } => Ok(Addition { cell, delta, min, max }),
        _ => unreachable!("the kind is Add, checked above"),
    }
}

/// Commits a prepared branch.
///
/// Requires the right to administer the server. A repeated commit succeeds without effect.
#[utoipa::path(
    post, path = "/v1/branches/{branch}/commit", operation_id = "commitBranch", tag = "branches",
    params(("branch" = String, Path, description = "The name of the branch, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "The branch is committed."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-branch: the branch is not prepared, or not all of it, and was not committed."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "branch-settled: the branch was aborted."))
)]
pub async fn commit(request: RequestContext) -> HttpResult {
    finish(&request, BranchOutcome::Commit).await
}

/// Aborts a branch, whether it is prepared or not.
///
/// Requires the right to administer the server. The server keeps the outcome for seven days, so that it
/// rejects a prepare that arrives after the abort.
#[utoipa::path(
    post, path = "/v1/branches/{branch}/abort", operation_id = "abortBranch", tag = "branches",
    params(("branch" = String, Path, description = "The name of the branch, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "The branch is aborted."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "branch-settled: the branch was committed."))
)]
pub async fn abort(request: RequestContext) -> HttpResult {
    finish(&request, BranchOutcome::Abort).await
}

async fn finish(request: &RequestContext, ending: BranchOutcome) -> HttpResult {
    request.may_administer()?;
    let (text, name) = named(request)?;
    request.spend(1)?;
    let service = request.app.service.clone();
    let finish = async move { service.finish_branch(&name, ending).await };
    match (request.app.complete(STATE_UNKNOWN, finish).await??, ending) {
        (FinishResult::Done { fresh, .. }, BranchOutcome::Commit) => Ok(done(text, "committed", fresh)),
        (FinishResult::Done { fresh, .. }, BranchOutcome::Abort) => Ok(done(text, "aborted", fresh)),
        (FinishResult::Otherwise, BranchOutcome::Commit) => Err(settled(BranchOutcome::Abort)),
        (FinishResult::Otherwise, BranchOutcome::Abort) => Err(settled(BranchOutcome::Commit)),
        (FinishResult::Unknown, _) => {
            let detail = "the branch is not prepared, or not all of it, and no commit of it is recorded";
            Err(Problem::new(ErrorCode::UnknownBranch, detail))
        }
    }
}

/// Lists up to 10,000 prepared branches, oldest first.
///
/// Requires the right to administer the server. A branch that is prepared for long was left by a failed
/// coordinator.
#[utoipa::path(
    get, path = "/v1/branches", operation_id = "listBranches", tag = "branches",
    responses((status = 200, body = BranchList, description = "The prepared branches."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."))
)]
pub async fn list(request: RequestContext) -> HttpResult {
    request.may_administer()?;
    request.spend(1)?;
    let mut held = request.app.in_time(request.service().engine.prepared_branches()).await??;
    held.sort_by(|one, other| (one.since, &one.name).cmp(&(other.since, &other.name)));
    let (now, more) = (request.service().millis(), held.len() > LISTED_MAX);
    let catalog = request.service().engine.catalog();
    let item = |held: PreparedBranchInfo| BranchItem {
        branch: String::from_utf8_lossy(held.name.as_bytes()).into_owned(),
        age_ms: now.saturating_sub(held.since),
        operations: held.additions.len(),
        holds: held.additions.iter().take(HOLDS_MAX).map(|one| shown(&catalog, one)).collect(),
    };
    let branches = held.into_iter().take(LISTED_MAX).map(item).collect();
    Ok(json::ok(&BranchList { branches, more }))
}

/// An addition as text: `stock/apples: -5`.
fn shown(catalog: &Catalog, one: &Addition) -> String {
    let table = catalog.get(one.cell.table()).map_or("?", |table| &table.name);
    let (row, column) = one.cell.row_and_column();
    let (row, column) = (String::from_utf8_lossy(&row), String::from_utf8_lossy(column));
    let between = if column.is_empty() { "" } else { "/" };
    format!("{table}/{row}{between}{column}: {:+}", one.delta)
}

/// The name of the branch in the path, as text and parsed.
fn named(request: &RequestContext) -> Result<(String, BranchName), Problem> {
    let text = request.text_part(2)?;
    let name = BranchName::new(text.as_bytes())?;
    Ok((text, name))
}

fn done(branch: String, state: &'static str, fresh: bool) -> axum::response::Response {
    json::ok(&BranchDone { branch, state, fresh })
}

fn settled(ending: BranchOutcome) -> Problem {
    let (name, detail) = match ending {
        BranchOutcome::Commit => ("commit", "the branch was committed"),
        BranchOutcome::Abort => ("abort", "the branch was aborted, possibly before it was prepared"),
    };
    Problem::new(ErrorCode::BranchFinished, detail).with("ending", name)
}
