//! Many independent operations in one request.

use std::sync::Arc;
use std::time::Instant;

use jeton_core::{Operation, Table};
use jeton_engine::EngineError;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::change_body::ChangeBody;
use super::error_mapping::SOON;
use super::import::{BATCH_BYTES_MAX, BATCH_MAX};
use super::json;
use super::outcome_body::{Outcome, OutcomeList, OutcomeListText};
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::{RequestContext, parsed_id};

pub const ITEMS_MAX: usize = 10_000;

/// Memory of an item besides the body: where it is in the body, and its outcome as text. Items that are being
/// applied are charged besides.
pub const ITEM_BYTES: usize = 256;

/// Operations, independent of each other.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody<'a> {
    /// Up to 10,000 operations. Operations on one counter are applied in this order.
    #[serde(borrow)]
    #[schema(value_type = Vec<ChangeBody>)]
    operations: Items<'a>,
}

/// The items of a list in a request, not parsed.
pub type Items<'a> = json::List<&'a RawValue, ITEMS_MAX>;

/// An operation with its table, or the problem that prevents it.
pub type PlannedOperation = Result<(Arc<Table>, Operation), Problem>;

/// Plans and applies items, and responds with their outcomes. Items become operations and outcomes part by
/// part, so that a request needs memory for one part besides its body and its response.
pub async fn apply_items(
    request: &mut RequestContext,
    items: Items<'_>,
    plan: impl Fn(&RequestContext, &RawValue) -> PlannedOperation,
) -> HttpResult {
    let items = items.all().map_err(|number| {
        let detail = format!(
            "a request has at most {ITEMS_MAX} operations, not {number}: send several requests, or use the import"
        );
        Problem::new(ErrorCode::TooLarge, detail).with("limit", ITEMS_MAX)
    })?;
    let number = items.len();
    request.charge_reply(number * ITEM_BYTES)?;
    request.spend(number)?;
    let until = Instant::now() + request.service().options.request_timeout;
    let mut results = OutcomeListText::default();
    let mut left = &items[..];
    while !left.is_empty() {
        let mut bytes = 0;
        let fits = |item: &&&RawValue| {
            let fits = bytes < BATCH_BYTES_MAX;
            bytes += item.get().len();
            fits
        };
        let (part, rest) = left.split_at(left.iter().take(BATCH_MAX).take_while(fits).count());
        left = rest;
        if Instant::now() > until {
            let problem =
                Problem::new(ErrorCode::Busy, "not applied within the request timeout").retry_in(SOON);
            part.iter().for_each(|_| results.push(Err(problem.clone())));
            continue;
        }
        let planned = part.iter().map(|item| plan(request, item)).collect();
        apply_planned(request, planned, &mut results).await;
        // A part without valid items has not waited.
        tokio::task::yield_now().await;
        request.charge_reply(results.capacity().max(number * ITEM_BYTES)).map_err(|problem| {
            let detail = format!("the response was dropped: {}; retry with the same ids", problem.detail);
            Problem::new(ErrorCode::OutcomeUnknown, detail)
        })?;
    }
    Ok(results.respond())
}

async fn apply_planned(
    request: &RequestContext,
    planned: Vec<PlannedOperation>,
    results: &mut OutcomeListText,
) {
    let mut operations = Vec::with_capacity(planned.len());
    let planned: Vec<_> = planned
        .into_iter()
        .map(|plan| {
            let (table, operation) = plan?;
            let partition = operation.partition();
            operations.push(operation);
            Ok((table, partition))
        })
        .collect();
    let mut outcomes = request.apply_all(operations).await.into_iter();
    for plan in planned {
        let outcome = plan.and_then(|(table, partition)| {
            let outcome = outcomes.next().ok_or(EngineError::Closed)??;
            Ok(Outcome::of(&table, partition, &outcome))
        });
        results.push(outcome);
    }
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
    apply_items(&mut request, operations, plan).await
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
