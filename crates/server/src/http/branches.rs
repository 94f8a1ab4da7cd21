//! Branches of transactions: what a transaction manager asks of a participant.
//!
//! To hold is to vote: 200 is *yes*, and everything else is *no*, or doubt, after which the branch is aborted. All three are safe to repeat.
//!
//! What must hold: who votes may add in every table that the branch adds in. To settle and to list is for those who may administer the server: a transaction manager ends
//! what others of its kind left behind, in whatever tables, and a name says nothing about these once the branch has ended.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use jeton_auth::Right;
use jeton_core::limits::ADDITIONS_MAX;
use jeton_core::{Addition, BranchError, BranchName, BranchOutcome, Catalog, Change};
use jeton_engine::{EngineError, FinishResult, PrepareResult, PreparedBranchInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::change_body::{ChangeBody, ChangeKind};
use super::error_mapping::SOON;
use super::json;
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::RequestContext;

/// The most branches that are listed.
const LISTED_MAX: usize = 10_000;

/// The most additions of one that are shown.
const HOLDS_MAX: usize = 32;

/// What a branch adds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"operations": [
    {"table": "stock", "row": "apples", "delta": -5, "min": 0}, {"table": "sold", "row": "apples", "delta": 5}
]}))]
pub struct BranchBody {
    /// The additions, up to 256, in any tables: with `table`, without `id`. Bounds are those of the counter after the whole branch.
    pub operations: Vec<ChangeBody>,
}

/// What became of a branch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branch": "order-4711", "state": "held", "fresh": true}))]
pub struct BranchDone {
    /// Its name.
    branch: String,
    /// held, committed or aborted.
    state: &'static str,
    /// Whether it was not so before.
    fresh: bool,
}

/// The branches that are held.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"branches": [{"branch": "order-4711", "age_ms": 12, "operations": 2, "holds": ["stock/apples: -5", "sold/apples: +5"]}], "more": false}))]
pub struct BranchList {
    /// The branches, the oldest first.
    branches: Vec<BranchItem>,
    /// Whether there are more than are listed.
    more: bool,
}

/// A branch that is held.
#[derive(Debug, Serialize, ToSchema)]
pub struct BranchItem {
    /// Its name.
    branch: String,
    /// For how long it has been held, in milliseconds.
    age_ms: u64,
    /// How many counters it adds to.
    operations: usize,
    /// What it adds, for people: the first 32 of them, in no order.
    holds: Vec<String>,
}

/// Holds a branch of a transaction: its vote.
///
/// With 200 the additions are held: nobody sees them yet, and they can be committed from now on whatever happens, because nothing is done to their counters meanwhile that would not leave
/// them room. After any other answer, and after none, the branch is to be aborted. If the same is sent again, the answer is the same, with `fresh` false.
#[utoipa::path(
    put, path = "/v1/branches/{branch}", operation_id = "holdBranch", tag = "branches", request_body = BranchBody,
    params(("branch" = String, Path, description = "The name of the branch: 1 to 200 bytes of text, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "It is held: the vote is yes."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "bad-operation: there cannot be such a branch."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to add in one of the tables."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "beyond-bound, overflow, not-a-counter: it cannot be, as the counters are. branch-settled: it has ended, as `ending` says."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "id-mismatch: another branch is held under this name."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "held: other transactions hold what it needs. busy, full: it passes."))
)]
pub async fn put(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    let (text, name) = named(&asked)?;
    asked.no_key()?;
    let body: BranchBody = asked.json().await?;
    if body.operations.len() > ADDITIONS_MAX {
        return Err(BranchError::TooMany.into());
    }
    asked.spend(body.operations.len().max(1))?;
    let mut additions = Vec::new();
    for (at, step) in body.operations.into_iter().enumerate() {
        let one = addition(&asked, step).map_err(|problem| problem.at(&format!("operations[{at}]")))?;
        additions.push(one);
    }
    let (service, pass) = (asked.app.service.clone(), asked.pass.clone());
    let vote =
        work(&asked, async move { service.prepare_branch_as(&pass, &name, additions).await }).await??;
    match vote {
        PrepareResult::Prepared { fresh } => Ok(done(text, "held", fresh)),
        PrepareResult::Finished(ending) => Err(settled(ending)),
    }
}

fn addition(asked: &RequestContext, mut step: ChangeBody) -> Result<Addition, Problem> {
    let table =
        step.table.take().ok_or_else(|| Problem::new(ErrorCode::BadJson, "missing member `table`"))?;
    asked.may(&table, Right::Add)?;
    if step.op != ChangeKind::Add || step.id.is_some() {
        return Err(Problem::new(ErrorCode::BadJson, "a branch only adds, and its name is the only id"));
    }
    let table = asked.service().engine.table(&table)?;
    let row = step.row()?;
    let wanted = step.wanted()?;
    let cell = asked.service().engine.cell(&table, &row, &wanted.column)?;
    match wanted.change {
        Change::Add(delta) => Ok(Addition { cell, delta, min: None, max: None }),
        Change::AddWithin { delta, min, max } => Ok(Addition { cell, delta, min, max }),
        _ => unreachable!("it was seen above that it adds"),
    }
}

/// Commits a branch that is held: its additions count.
///
/// Needs the right to administer the server. To commit again what is committed is no mistake, and counts nothing.
#[utoipa::path(
    post, path = "/v1/branches/{branch}/commit", operation_id = "commitBranch", tag = "branches",
    params(("branch" = String, Path, description = "The name of the branch, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "It is committed."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-branch: it is not held, or not all of it, and was not committed."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "branch-settled: it was aborted."))
)]
pub async fn commit(asked: RequestContext) -> Result<Response<Body>, Problem> {
    settle(&asked, BranchOutcome::Commit).await
}

/// Aborts a branch, whether it is held or not: nothing of it counts, and it will not be held.
///
/// Needs the right to administer the server. That it was aborted is remembered for seven days: a vote that is still on its way is refused when it comes.
#[utoipa::path(
    post, path = "/v1/branches/{branch}/abort", operation_id = "abortBranch", tag = "branches",
    params(("branch" = String, Path, description = "The name of the branch, percent-encoded.")),
    responses((status = 200, body = BranchDone, description = "It is aborted."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "branch-settled: it was committed."))
)]
pub async fn abort(asked: RequestContext) -> Result<Response<Body>, Problem> {
    settle(&asked, BranchOutcome::Abort).await
}

async fn settle(asked: &RequestContext, ending: BranchOutcome) -> Result<Response<Body>, Problem> {
    asked.may_administer()?;
    let (text, name) = named(asked)?;
    asked.spend(1)?;
    let service = asked.app.service.clone();
    let outcome = work(asked, async move { service.finish_branch(&name, ending).await }).await??;
    match (outcome, ending) {
        (FinishResult::Done { fresh, .. }, BranchOutcome::Commit) => Ok(done(text, "committed", fresh)),
        (FinishResult::Done { fresh, .. }, BranchOutcome::Abort) => Ok(done(text, "aborted", fresh)),
        (FinishResult::Otherwise, BranchOutcome::Commit) => Err(settled(BranchOutcome::Abort)),
        (FinishResult::Otherwise, BranchOutcome::Abort) => Err(settled(BranchOutcome::Commit)),
        (FinishResult::Unknown, _) => {
            let detail =
                "the branch is not held, or not all of it, and was not committed as far as is remembered";
            Err(Problem::new(ErrorCode::UnknownBranch, detail))
        }
    }
}

/// Lists the branches that are held, the oldest first, up to 10,000 of them.
///
/// Needs the right to administer the server. One that is held for long is the remains of a transaction that nobody ended.
#[utoipa::path(
    get, path = "/v1/branches", operation_id = "listBranches", tag = "branches",
    responses((status = 200, body = BranchList, description = "What is held."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server."))
)]
pub async fn list(asked: RequestContext) -> Result<Response<Body>, Problem> {
    asked.may_administer()?;
    asked.spend(1)?;
    let mut held = asked.app.in_time(asked.service().engine.prepared_branches()).await??;
    held.sort_by(|one, other| (one.since, &one.name).cmp(&(other.since, &other.name)));
    let (now, more) = (asked.service().millis(), held.len() > LISTED_MAX);
    let catalog = asked.service().engine.catalog();
    let item = |held: PreparedBranchInfo| BranchItem {
        branch: String::from_utf8_lossy(held.name.as_bytes()).into_owned(),
        age_ms: now.saturating_sub(held.since),
        operations: held.additions.len(),
        holds: held.additions.iter().take(HOLDS_MAX).map(|one| shown(&catalog, one)).collect(),
    };
    let branches = held.into_iter().take(LISTED_MAX).map(item).collect();
    Ok(json::response(StatusCode::OK, &BranchList { branches, more }))
}

/// An addition, for people: `stock/apples: -5`.
fn shown(catalog: &Catalog, one: &Addition) -> String {
    let table = catalog.get(one.cell.table()).map_or("?", |table| &table.name);
    let (row, column) = one.cell.row_and_column();
    let (row, column) = (String::from_utf8_lossy(&row), String::from_utf8_lossy(column));
    let between = if column.is_empty() { "" } else { "/" };
    format!("{table}/{row}{between}{column}: {:+}", one.delta)
}

/// The name of the branch in the path, as text and as it is.
fn named(asked: &RequestContext) -> Result<(String, BranchName), Problem> {
    let text = asked.text_part(2)?;
    let name = BranchName::new(text.as_bytes())?;
    Ok((text, name))
}

/// Does something that must come to its end, also if whoever asked has gone.
async fn work<T: Send + 'static>(
    asked: &RequestContext,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let work = tokio::spawn(work);
    match tokio::time::timeout(asked.service().options.request_timeout, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(EngineError::Closed.into()),
        Err(_) => {
            let detail = "there was no answer within the time allowed; what became of the branch is not known here: ask again";
            Err(Problem::new(ErrorCode::OutcomeUnknown, detail).retry_in(SOON))
        }
    }
}

fn done(branch: String, state: &'static str, fresh: bool) -> Response<Body> {
    json::response(StatusCode::OK, &BranchDone { branch, state, fresh })
}

fn settled(ending: BranchOutcome) -> Problem {
    let (name, detail) = match ending {
        BranchOutcome::Commit => ("commit", "the branch was committed"),
        BranchOutcome::Abort => ("abort", "the branch was aborted, perhaps before it was ever held"),
    };
    Problem::new(ErrorCode::BranchFinished, detail).with("ending", name)
}
