//! Changes and reads of counters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jeton_auth::Right;
use jeton_core::rfc3339;
use jeton_core::{Cell, Change, Durability, Operation, Table, Value};
use jeton_engine::{Ask, EngineError};
use serde::Serialize;
use utoipa::ToSchema;

use super::change_body::{
    self, AddBody, ChangeKind, ParsedChange, PlainBody, PutBody, SetBody, parse_column,
};
use super::outcome_body::{Outcome, durability};
use super::problem::{ErrorCode, HttpResult, Problem, ProblemBody};
use super::query::Query;
use super::request_context::{RequestContext, decoded};
use super::{json, list_counters};
use crate::Service;
use crate::service::read_value;

/// Maximum number of rows in a read.
pub const ROWS_MAX: usize = 1000;

/// The row and the column of a cell.
#[derive(Debug, Serialize, ToSchema)]
pub struct Address {
    /// The row, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<String>,
    /// The row as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_base64: Option<String>,
    /// The column, if it is named and is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// The column as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    column_base64: Option<String>,
}

impl Address {
    pub fn of(cell: &Cell) -> Self {
        let (row, column) = cell.row_and_column();
        let (row, row_base64) = text_or_base64(row);
        let (column, column_base64) =
            if column.is_empty() { (None, None) } else { text_or_base64(column.to_vec()) };
        Self { row, row_base64, column, column_base64 }
    }
}

/// The content of a cell.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"row": "page-7", "value": 7, "value_text": "7", "exists": true}))]
pub struct Counter {
    #[serde(flatten)]
    address: Address,
    /// The counter; 0 if the cell is empty, null if it contains bytes.
    value: Option<i64>,
    /// The same as text, for clients whose numbers end at 2^53.
    value_text: Option<String>,
    /// Whether the cell is not empty.
    exists: bool,
    /// The bytes of the cell, if they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes of the cell as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Time at which the cell expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    expires: Option<String>,
    /// "relaxed" if a crash may lose the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<&'static str>,
}

/// Counters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counters {
    /// The counters: in the order of the rows in the query, or in the order of the store.
    pub counters: Vec<Counter>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

impl Counter {
    pub fn new(table: &Table, cell: &Cell, value: Option<Value>) -> Self {
        let exists = value.is_some();
        let expires = value.as_ref().and_then(Value::until).map(rfc3339::format);
        let (counter, bytes) = match value.map(Value::plain) {
            None => (Some(0), None),
            Some(Value::Bytes(bytes)) => (None, Some(bytes)),
            Some(value) => (value.counter(), None),
        };
        let relaxed = table.settings().durability == Durability::Relaxed;
        Self {
            address: Address::of(cell),
            value: counter,
            value_text: counter.map(|counter| counter.to_string()),
            exists,
            text: bytes.as_ref().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()),
            base64: bytes.map(|bytes| STANDARD.encode(bytes)),
            expires,
            durability: relaxed.then(|| durability(Durability::Relaxed)),
        }
    }
}

/// Bytes as text, or as base64 if they are not UTF-8.
fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// Reads cells in one batch.
async fn read(request: &RequestContext, table: &Table, cells: Vec<Cell>) -> Result<Vec<Counter>, Problem> {
    let asks = cells.iter().cloned().map(Ask::Read).collect();
    let responses = request.app.submit_batch(&request.auth, asks).await?;
    let read = cells.iter().zip(responses);
    read.map(|(cell, response)| Ok(Counter::new(table, cell, read_value(response)?))).collect()
}

/// `POST /v1/tables/{table}/counters/{row}:{verb}`.
pub async fn post(mut request: RequestContext) -> HttpResult {
    // The last colon that is not encoded, because rows may contain colons.
    let last = request.raw_part(4).to_owned();
    let found = last
        .rsplit_once(':')
        .and_then(|(row, verb)| Some((row, ChangeKind::ALL.into_iter().find(|known| known.name() == verb)?)));
    let Some((row, verb)) = found else {
        let detail = "the path of a change ends with :add, :set, :reset, :delete or :put";
        return Err(Problem::new(ErrorCode::NotFound, detail));
    };
    let row = decoded(row)?;
    let table = request.table(verb.right())?;
    request.spend(1)?;
    let parsed = match verb {
        ChangeKind::Add => add(&mut request).await?,
        ChangeKind::Set => set(&mut request).await?,
        ChangeKind::Reset => reset(&mut request).await?,
        ChangeKind::Delete => delete(&mut request).await?,
        ChangeKind::Put => put(&mut request).await?,
    };
    let id = request.id(parsed.id, table.settings().formats)?;
    let cell = request.service().engine.cell(&table, &row, &parsed.column)?;
    let (partition, reply) = request.apply(Operation::single(id, cell, parsed.change)?).await?;
    let outcome = Outcome::of(&table, partition, &reply);
    Ok(outcome.details.respond(&outcome))
}

/// Adds to a counter, once.
///
/// Requests with the same id count once, and every retry gets the first result, marked `replayed`. `min` and
/// `max` bound the sum: a refusal is a result too (`applied: false`) and is stored like any other.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:add", operation_id = "addToCounter", tag = "counters", request_body = AddBody,
    params(
        ("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F."),
        ("Idempotency-Key" = Option<String>, Header, description = "The id, as a string in quotes (draft-ietf-httpapi-idempotency-key-header-06)."),
    ),
    responses(
        (status = 200, body = Outcome, description = "The outcome. A replay has the header `Idempotency-Replayed: true`."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "id-required, id-invalid, id-conflict, id-from-future, epoch-ahead, bad-json, bad-operation: correct the request, keep the id."),
        (status = 401, body = ProblemBody, content_type = "application/problem+json", description = "unauthorized, token-invalid."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "The token lacks the right `add`."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "outcome-unknown (retry with the same id), unknown-session, fenced, overflow, not-a-counter."),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "id-expired: the server no longer knows whether this id was counted, and does not count it now."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "id-mismatch: the id was used for another operation."),
        (status = 429, body = ProblemBody, content_type = "application/problem+json", description = "throttled: above the rate limit of the token."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "busy, full or closing: retry with the same id."),
    )
)]
pub async fn add(request: &mut RequestContext) -> Result<ParsedChange, Problem> {
    let body: AddBody = request.json().await?;
    ParsedChange::new(change_body::add(body.delta, body.min, body.max), body.column, body.id)
}

/// Sets a counter to a value. Requires the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:set", operation_id = "setCounter", tag = "counters", request_body = SetBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "The outcome."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn set(request: &mut RequestContext) -> Result<ParsedChange, Problem> {
    let body: SetBody = request.json().await?;
    ParsedChange::new(Change::Set(body.value.0), body.column, body.id)
}

/// Sets a counter to zero. Requires the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:reset", operation_id = "resetCounter", tag = "counters", request_body = PlainBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "The outcome."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn reset(request: &mut RequestContext) -> Result<ParsedChange, Problem> {
    let body: PlainBody = request.json().await?;
    ParsedChange::new(Change::Reset, body.column, body.id)
}

/// Deletes a cell. Requires the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:delete", operation_id = "deleteCounter", tag = "counters", request_body = PlainBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "The outcome; the value is null."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn delete(request: &mut RequestContext) -> Result<ParsedChange, Problem> {
    let body: PlainBody = request.json().await?;
    ParsedChange::new(Change::Delete, body.column, body.id)
}

/// Stores bytes in a cell instead of a counter. Requires the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:put", operation_id = "putBytes", tag = "counters", request_body = PutBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "The outcome; the value is null."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn put(request: &mut RequestContext) -> Result<ParsedChange, Problem> {
    let body: PutBody = request.json().await?;
    ParsedChange::new(change_body::put(body.text, body.base64)?, body.column, body.id)
}

/// Reads a counter.
///
/// A counter that does not exist reads as 0 with `exists: false`, because an addition to it needs no
/// creation.
#[utoipa::path(
    get, path = "/v1/tables/{table}/counters/{row}", operation_id = "readCounter", tag = "counters",
    params(("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F."),
        ("column" = Option<String>, Query, description = "The column, as family:qualifier.")),
    responses((status = 200, body = Counter, description = "The content of the cell."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    let table = request.table(Right::Read)?;
    request.spend(1)?;
    let query = request.query(&["column"])?;
    let cell = cell(request.service(), &table, &request.part(4)?, &query)?;
    let counters = read(&request, &table, vec![cell]).await?;
    match &counters[..] {
        [counter] => Ok(json::ok(counter)),
        _ => Err(EngineError::Closed.into()),
    }
}

fn cell(service: &Service, table: &Table, row: &[u8], query: &Query) -> Result<Cell, Problem> {
    Ok(service.engine.cell(table, row, &parse_column(query.one("column")?)?)?)
}

/// Reads many counters: those of given rows, or those of a prefix, by page.
///
/// With `row`, which may be repeated, the response has each of them, whether it exists or not. Without it,
/// the response lists the counters that existed before the first page, in the order of the store; `next` of a
/// page is `after` for the next one.
#[utoipa::path(
    get, path = "/v1/tables/{table}/counters", operation_id = "readCounters", tag = "counters",
    params(("table" = String, Path, description = "The table."),
        ("row" = Option<Vec<String>>, Query, description = "A row to read; up to 1000 of them."),
        ("column" = Option<String>, Query, description = "With `row`: the column, as family:qualifier."),
        ("prefix" = Option<String>, Query, description = "The prefix of the rows."),
        ("limit" = Option<u32>, Query, description = "Maximum number of counters of a page: 1 to 1000, default 100."),
        ("after" = Option<String>, Query, description = "`next` of the previous page.")),
    responses((status = 200, body = Counters, description = "The counters."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "Invalid query."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."))
)]
pub async fn many(request: RequestContext) -> HttpResult {
    let table = request.table(Right::Read)?;
    let query = request.query(&["row", "column", "prefix", "limit", "after"])?;
    let rows: Vec<&[u8]> = query.all("row").collect();
    if rows.is_empty() {
        request.spend(1)?;
        return Ok(json::ok(&list_counters::page(&request, &table, &query).await?));
    }
    if rows.len() > ROWS_MAX {
        let detail = format!("a request reads at most {ROWS_MAX} rows, not {}", rows.len());
        return Err(Problem::bad_request(detail));
    }
    for name in ["prefix", "limit", "after"] {
        if query.one(name)?.is_some() {
            let detail = format!("`{name}` lists counters and `row` reads given rows: use one of them");
            return Err(Problem::bad_request(detail));
        }
    }
    request.spend(rows.len())?;
    let cells =
        rows.iter().map(|row| cell(request.service(), &table, row, &query)).collect::<Result<_, _>>()?;
    let counters = read(&request, &table, cells).await?;
    Ok(json::ok(&Counters { counters, next: None }))
}
