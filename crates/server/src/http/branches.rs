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
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::RequestContext;

const LISTED_MAX: usize = 10_000;

/// Maximum number of listed additions of a branch.
const HOLDS_MAX: usize = 32;

/// The detail of a timeout.
const STATE_UNKNOWN: &str =
    "the request did not complete within the request timeout, and the state of the branch is unknown: retry";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"operations": [
    {"table": "stock", "row": "apples", "delta": -5, "min": 0}, {"table": "sold", "row": "apples", "delta": 5}
]}))]
pub struct BranchBody {
    /// Up to 256 additions in any tables, with `table` and without `id`. Bounds apply to the counter after
    /// the whole branch.
    #[schema(value_type = Vec<ChangeBody>)]
    pub operations: json::List<ChangeBody, ADDITIONS_MAX>,
}

/// The state of a branch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branch": "order-4711", "state": "held", "fresh": true}))]
pub struct BranchDone {
    branch: String,
    /// held, committed or aborted.
    state: &'static str,
    /// Whether this request changed the state.
    fresh: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branches": [{"branch": "order-4711", "age_ms": 12, "operations": 2, "holds": ["stock/apples: -5", "sold/apples: +5"]}], "more": false}))]
pub struct BranchList {
    /// The branches, oldest first.
    branches: Vec<BranchItem>,
    /// Whether the list is truncated.
    more: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BranchItem {
    branch: String,
    /// Time since the prepare in milliseconds.
    age_ms: u64,
    operations: usize,
    /// Up to 32 of the additions as text, in any order.
    holds: Vec<String>,
}

/// Prepares a branch of a transaction; the response is the vote.
///
/// After a 200 the additions are reserved: no client sees them yet, and a commit always succeeds, because the
/// server rejects changes that would leave no room for them. After any other response, and after none, the
/// coordinator must abort the branch. A repeated prepare gets the same response, with `fresh` false. The
/// problem `branch-settled` has the outcome of the branch in `ending`.
#[utoipa::path(
    put, path = "/v1/branches/{branch}", operation_id = "holdBranch", tag = "branches", request_body = BranchBody,
    params(("branch" = String, Path, description = "The name of the branch: 1 to 200 bytes of text, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "The branch is prepared: the vote is yes."))
)]
pub async fn put(mut request: RequestContext) -> HttpResult {
    let (text, name) = named(&request)?;
    request.no_key()?;
    let body: BranchBody = request.json().await?;
    let operations = body.operations.all().map_err(|_| BranchError::TooMany)?;
    request.spend(operations.len().max(1))?;
    let steps = operations.into_iter().enumerate();
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
    if step.kind() != ChangeKind::Add || step.id.is_some() {
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
    responses((status = 200, body = BranchDone, description = "The branch is committed."))
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
    responses((status = 200, body = BranchDone, description = "The branch is aborted."))
)]
pub async fn abort(request: RequestContext) -> HttpResult {
    finish(&request, BranchOutcome::Abort).await
}

async fn finish(request: &RequestContext, ending: BranchOutcome) -> HttpResult {
    request.administer()?;
    let (text, name) = named(request)?;
    let service = request.app.service.clone();
    let finish = async move { service.finish_branch(&name, ending).await };
    let (state, other) = match ending {
        BranchOutcome::Commit => ("committed", BranchOutcome::Abort),
        BranchOutcome::Abort => ("aborted", BranchOutcome::Commit),
    };
    match request.app.complete(STATE_UNKNOWN, finish).await?? {
        FinishResult::Done { fresh, .. } => Ok(done(text, state, fresh)),
        FinishResult::Otherwise => Err(settled(other)),
        FinishResult::Unknown => {
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
    responses((status = 200, body = BranchList, description = "The prepared branches."))
)]
pub async fn list(request: RequestContext) -> HttpResult {
    request.administer()?;
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
