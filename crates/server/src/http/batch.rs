//! Many operations in one request, independent of each other.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use jeton_core::{Operation, PartitionId, Table};
use jeton_engine::{Ask, EngineError, Response as Answered};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::change_body::ChangeBody;
use super::json;
use super::outcome_body::{Outcome, OutcomeList, ReplySource};
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::RequestContext;

/// The most operations of a request.
pub const ITEMS_MAX: usize = 10_000;

/// Operations, independent of each other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody<'a> {
    /// Up to 10,000 operations. Those on one counter are done in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<ChangeBody>)]
    operations: Vec<&'a RawValue>,
}

/// An operation that is to be done, and its table; or why it is not.
pub type PlannedOperation = Result<(Arc<Table>, Operation), Problem>;

/// What became of an operation that was asked for in a burst.
pub fn outcome(table: &Table, partition: PartitionId, answered: Answered) -> Result<Outcome, Problem> {
    match answered {
        Answered::Applied(reply) => Ok(Outcome::of(table, partition, &reply?)),
        _ => Err(EngineError::Storage("an operation was answered as something else".into()).into()),
    }
}

/// Does what is planned, all at once, and says what became of each.
pub async fn all(asked: &RequestContext, planned: Vec<PlannedOperation>) -> OutcomeList {
    let asks = planned.iter().flatten().map(|(_, operation)| Ask::Apply(operation.clone())).collect();
    // If there is no answer in time, there is none to any of them.
    let answers = asked.app.submit_batch(&asked.pass, asks).await.map(Vec::into_iter);
    let results = match answers {
        Err(problem) => planned
            .into_iter()
            .map(|plan| Err(plan.err().unwrap_or_else(|| problem.clone())).into())
            .collect(),
        Ok(mut answers) => planned
            .into_iter()
            .map(|plan| {
                let (table, operation) = plan?;
                let answered = answers.next().unwrap_or(Answered::Applied(Err(EngineError::Closed)));
                outcome(&table, operation.partition(), answered)
            })
            .map(ReplySource::from)
            .collect(),
    };
    OutcomeList { results }
}

/// Refuses more items than can be done at a time.
pub fn check_number(number: usize) -> Result<(), Problem> {
    if number <= ITEMS_MAX {
        return Ok(());
    }
    let detail = format!(
        "a request has at most {ITEMS_MAX} operations, not {number}: send several, or use the import"
    );
    Err(Problem::new(ErrorCode::TooLarge, detail).with("limit", ITEMS_MAX))
}

/// Does many operations, independent of each other.
///
/// Each has its own id and its own outcome, in the order of the request: what `:add` and its siblings answer, and `status`. One that
/// cannot be done does not keep the others from being done. The response is 200 whatever became of them.
#[utoipa::path(
    post, path = "/v1/batch", operation_id = "batch", tag = "counters", request_body = BatchBody,
    responses((status = 200, body = OutcomeList, description = "What became of each."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "No list of operations."),
        (status = 413, body = ProblemBody, content_type = "application/problem+json", description = "More than 10,000 operations, or too many bytes."))
)]
pub async fn post(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    asked.no_key()?;
    asked.must_be(&["application/json"])?;
    let body = asked.whole().await?;
    let BatchBody { operations } = json::object(&body)?;
    check_number(operations.len())?;
    asked.spend(operations.len())?;
    let planned = operations.into_iter().map(|item| plan(&asked, item)).collect();
    Ok(json::response(StatusCode::OK, &all(&asked, planned).await))
}

fn plan(asked: &RequestContext, item: &RawValue) -> PlannedOperation {
    let mut step: ChangeBody = json::object(item.get().as_bytes())?;
    let table =
        step.table.take().ok_or_else(|| Problem::new(ErrorCode::BadJson, "missing member `table`"))?;
    asked.may(&table, step.op.right())?;
    let table = asked.service().engine.table(&table)?;
    let operation = operation(asked, &table, step)?;
    Ok((table, operation))
}

/// The operation of a step.
pub fn operation(asked: &RequestContext, table: &Table, step: ChangeBody) -> Result<Operation, Problem> {
    let row = step.row()?;
    let wanted = step.wanted()?;
    let id = wanted.id.map(|id| table.settings().formats.parse(&id)).transpose()?;
    let cell = asked.service().engine.cell(table, &row, &wanted.column)?;
    Ok(Operation::single(id, cell, wanted.change)?)
}
