//! Operations of several changes under one id, and the status of an id.

use jeton_auth::Right;
use jeton_core::limits::CHANGES_MAX;
use jeton_core::{Cell, Change, Column, IdStatus, Operation, OperationError, Table};
use jeton_engine::OperationOutcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::change_body::{ChangeBody, ChangeKind};
use super::json;
use super::outcome_body::Outcomes;
use super::problem::{HttpResult, Problem};
use super::query::Query;
use super::request_context::RequestContext;

/// Several changes under one id, applied atomically.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057", "changes": [
    {"row": "{user7}spent", "op": "add", "delta": 5}, {"row": "{user7}left", "op": "add", "delta": -5, "min": 0}
]}))]
pub struct OperationBody {
    /// The id of the operation. It may come in the header `Idempotency-Key` instead.
    pub id: Option<String>,
    /// The changes, up to 256: without `table` and `id`, which they share.
    #[schema(value_type = Vec<ChangeBody>)]
    pub changes: json::List<ChangeBody, CHANGES_MAX>,
}

/// The status of an id for a row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057", "table": "clicks", "state": "taken", "operation":
    {"values": [7], "values_text": ["7"], "applied": true, "replayed": true, "partition": 12, "slot": 42,
     "time": "2026-11-16T07:40:12.000Z", "mode": "exact", "durability": "strict"}
}))]
pub struct IdBody {
    id: String,
    table: String,
    /// taken: the operation has a result. not-taken: the id is not known yet. probably-taken: a probabilistic
    /// table reports the id as known. forgotten: the id is older than the window, and may have been counted.
    state: &'static str,
    /// The result of a taken id.
    operation: Option<Outcomes>,
}

/// Applies several changes under one id atomically.
///
/// The changes are in one row, or in rows with the same hash tag: the text in braces of `{user7}spent` and
/// `{user7}left`. The id counts once for that row or hash tag. If a bound refuses one of the changes, none is
/// applied, and the refusal is stored under the id.
#[utoipa::path(
    post, path = "/v1/tables/{table}/operations", operation_id = "operate", tag = "operations", request_body = OperationBody,
    params(("table" = String, Path, description = "The table."),
        ("Idempotency-Key" = Option<String>, Header, description = "The id, as a string in quotes.")),
    responses((status = 200, body = Outcomes, description = "The outcome. A replay has the header `Idempotency-Replayed: true`."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    let name = request.table_name()?;
    // Before the body is read: a client without any right costs nothing more.
    request.may_change(&name)?;
    let body: OperationBody = request.json().await?;
    let changes = body.changes.all().map_err(OperationError::TooManyChanges)?;
    for verb in ChangeKind::ALL {
        if changes.iter().any(|change| change.kind() == verb) {
            request.may(&name, verb.right())?;
        }
    }
    request.spend(changes.len().max(1))?;
    let table = request.service().engine.table(&name)?;
    let id = request.id(body.id, &table)?;
    let steps = changes.into_iter().enumerate();
    let changes = steps.map(|(at, step)| {
        change(&request, &table, step).map_err(|problem| problem.at(&format!("changes[{at}]")))
    });
    let operation = Operation::batch(id, changes.collect::<Result<_, _>>()?)?;
    let (partition, reply) = request.apply(operation).await?;
    let outcome = Outcomes::of(&table, partition, &reply);
    Ok(outcome.details.respond(&outcome))
}

fn change(request: &RequestContext, table: &Table, step: ChangeBody) -> Result<(Cell, Change), Problem> {
    for (member, is_there) in [("table", step.table.is_some()), ("id", step.id.is_some())] {
        if is_there {
            let detail = format!("`{member}` belongs to the operation, not to one of its changes");
            return Err(Problem::bad_json(detail));
        }
    }
    let (cell, parsed) = step.resolve(request, table)?;
    Ok((cell, parsed.change))
}

/// Returns the status of an id for a row.
///
/// An id counts once for each row, or for all rows with the same hash tag. For clients that lost a response
/// and do not want to retry, and for support.
#[utoipa::path(
    get, path = "/v1/tables/{table}/operations/{id}", operation_id = "readOperation", tag = "operations",
    params(("table" = String, Path, description = "The table."),
        ("id" = String, Path, description = "The id, percent-encoded."),
        ("row" = String, Query, description = "The row of the operation, or another row with its hash tag.")),
    responses((status = 200, body = IdBody, description = "The status."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    let (table, id) = (request.table_name()?, request.text_part(4)?);
    look_up(&request, &table, &id, &request.query(&["row"])?).await
}

/// Returns the status of an id for a row, with the table in the query; the default table without it.
#[utoipa::path(
    get, path = "/v1/operations/{id}", operation_id = "readOperationOf", tag = "operations",
    params(("id" = String, Path, description = "The id, percent-encoded."),
        ("table" = Option<String>, Query, description = "The table."),
        ("row" = String, Query, description = "The row of the operation, or another row with its hash tag.")),
    responses((status = 200, body = IdBody, description = "The status."))
)]
pub async fn get_by_query(request: RequestContext) -> HttpResult {
    let query = request.query(&["table", "row"])?;
    let table = query.text("table")?.unwrap_or(&request.service().options.default_table).to_owned();
    let id = request.text_part(2)?;
    look_up(&request, &table, &id, &query).await
}

async fn look_up(request: &RequestContext, name: &str, id: &str, query: &Query) -> HttpResult {
    request.may(name, Right::Read)?;
    request.spend(1)?;
    let table = request.service().engine.table(name)?;
    let id = table.settings().formats.parse(id)?;
    let Some(row) = query.one("row")? else {
        return Err(Problem::bad_request(
            "The query needs `row`: an id counts once for each row or hash tag.",
        ));
    };
    let cell = request.service().engine.cell(&table, row, &Column::unnamed())?;
    let partition = cell.partition();
    let status = request.app.in_time(request.service().engine.operation(cell, id.clone())).await??;
    let state = match status {
        IdStatus::Yes(_) => "taken",
        IdStatus::Probably => "probably-taken",
        IdStatus::Forgotten => "forgotten",
        IdStatus::No => "not-taken",
    };
    let operation = match status {
        IdStatus::Yes(result) => Some(Outcomes::of(&table, partition, &OperationOutcome::Replayed(result))),
        _ => None,
    };
    let body = IdBody { id: id.to_string(), table: table.name.clone(), state, operation };
    Ok(json::ok(&body))
}
