//! Many independent operations in one request.

use std::sync::Arc;

use jeton_core::{Operation, Table};
use jeton_engine::EngineError;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::change_body::ChangeBody;
use super::json;
use super::outcome_body::{OperationResponse, Outcome, OutcomeList};
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::{RequestContext, parsed_id};

pub const ITEMS_MAX: usize = 10_000;

/// Operations, independent of each other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody<'a> {
    /// Up to 10,000 operations. Operations on one counter are applied in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<ChangeBody>)]
    operations: Vec<&'a RawValue>,
}

/// An operation with its table, or the problem that prevents it.
pub type PlannedOperation = Result<(Arc<Table>, Operation), Problem>;

/// Applies the planned operations in one batch and returns their outcomes.
pub async fn apply_planned(request: &RequestContext, planned: Vec<PlannedOperation>) -> OutcomeList {
    let operations = planned.iter().flatten().map(|(_, operation)| operation.clone()).collect();
    let mut outcomes = request.apply_all(operations).await.into_iter();
    let results = planned.into_iter().map(|plan| {
        let (table, operation) = plan?;
        let outcome = outcomes.next().ok_or(EngineError::Closed)??;
        Ok(Outcome::of(&table, operation.partition(), &outcome))
    });
    OutcomeList { results: results.map(OperationResponse::from).collect() }
}

pub fn check_number(number: usize) -> Result<(), Problem> {
    if number <= ITEMS_MAX {
        return Ok(());
    }
    let detail = format!(
        "a request has at most {ITEMS_MAX} operations, not {number}: send several requests, or use the import"
    );
    Err(Problem::new(ErrorCode::TooLarge, detail).with("limit", ITEMS_MAX))
}

/// Applies many independent operations.
///
/// Each operation has its own id and its own outcome, in the order of the request: the body of the response
/// to `:add`, and `status`. The failure of one does not affect the others. The status of the response is 200
/// whatever their outcomes.
#[utoipa::path(
    post, path = "/v1/batch", operation_id = "batch", tag = "counters", request_body = BatchBody,
    responses((status = 200, body = OutcomeList, description = "The outcome of each operation."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    request.no_key()?;
    request.must_be(&["application/json"])?;
    let body = request.whole().await?;
    let BatchBody { operations } = json::object(&body)?;
    check_number(operations.len())?;
    request.charge_operations(operations.len())?;
    request.spend(operations.len())?;
    let planned = operations.into_iter().map(|item| plan(&request, item)).collect();
    Ok(json::ok(&apply_planned(&request, planned).await))
}

fn plan(request: &RequestContext, item: &RawValue) -> PlannedOperation {
    let mut step: ChangeBody = json::object(item.get().as_bytes())?;
    let table = step.take_table()?;
    request.may(&table, step.kind().right())?;
    let table = request.service().engine.table(&table)?;
    let operation = operation(request, &table, step)?;
    Ok((table, operation))
}

pub fn operation(request: &RequestContext, table: &Table, step: ChangeBody) -> Result<Operation, Problem> {
    let (cell, parsed) = step.resolve(request, table)?;
    let id = parsed_id(parsed.id, table)?;
    Ok(Operation::single(id, cell, parsed.change)?)
}
