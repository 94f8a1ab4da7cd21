//! Changes and reads of counters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jeton_auth::Right;
use jeton_core::rfc3339;
use jeton_core::{Cell, Durability, Operation, Table, Value};
use jeton_engine::EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use super::change_body::{ChangeBody, ChangeKind, parse_column};
use super::outcome_body::Outcome;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::query::Query;
use super::request_context::{RequestContext, decoded};
use super::routes::not_allowed;
use super::settings::durability_name;
use super::{json, list_counters};
use crate::Service;

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
            durability: relaxed.then(|| durability_name(Durability::Relaxed)),
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

async fn read(request: &mut RequestContext, table: &Table, cells: &[Cell]) -> Result<Vec<Counter>, Problem> {
    let values = request.read_all(cells).await?;
    Ok(cells.iter().zip(values).map(|(cell, value)| Counter::new(table, cell, value)).collect())
}

/// The row and the verb in the last segment of a path. The colon is not encoded: rows may contain colons.
pub fn verb(segment: &str) -> Option<(&str, ChangeKind)> {
    let (row, verb) = segment.rsplit_once(':')?;
    Some((row, ChangeKind::ALL.into_iter().find(|known| known.name() == verb)?))
}

/// Changes a cell, once.
///
/// The verb `add` adds to a counter and requires the right `add`. The others require the right `admin`: `set`
/// sets a counter, `reset` sets it to zero, `delete` deletes the cell, and `put` stores bytes instead of a
/// counter. Requests with the same id count once, and every retry gets the first result, marked `replayed`.
/// `min` and `max` bound a sum: a refusal is a result too (`applied: false`) and is stored like any other.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:{verb}", operation_id = "changeCounter", tag = "counters",
    request_body(content = ChangeBody, example = json!({"delta": 1, "id": "01890a5d-ac96-774b-bcce-b302099a8057"})),
    params(
        ("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F, a colon %3A."),
        ("verb" = ChangeKind, Path, description = "The kind of change."),
        ("Idempotency-Key" = Option<String>, Header, description = "The id, as a string in quotes (draft-ietf-httpapi-idempotency-key-header-06)."),
    ),
    responses((status = 200, body = Outcome, description = "The outcome. A replay has the header `Idempotency-Replayed: true`."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    let last = request.raw_part(4).to_owned();
    let Some((row, verb)) = verb(&last) else {
        let detail = "the path of a change ends with :add, :set, :reset, :delete or :put";
        return Err(Problem::new(ErrorCode::NotFound, detail));
    };
    let row = decoded(row)?;
    let table = request.table(verb.right())?;
    request.spend(1)?;
    let parsed = request.json::<ChangeBody>().await?.parse_as(verb)?;
    let id = request.id(parsed.id, &table)?;
    let cell = request.service().engine.cell(&table, &row, &parsed.column)?;
    request.apply_one(&table, Operation::single(id, cell, parsed.change)?).await
}

/// Reads a counter.
///
/// A counter that does not exist reads as 0 with `exists: false`, because an addition to it needs no
/// creation.
#[utoipa::path(
    get, path = "/v1/tables/{table}/counters/{row}", operation_id = "readCounter", tag = "counters",
    params(("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F, a colon %3A."),
        ("column" = Option<String>, Query, description = "The column, as family:qualifier.")),
    responses((status = 200, body = Counter, description = "The content of the cell."))
)]
pub async fn get(mut request: RequestContext) -> HttpResult {
    if verb(request.raw_part(4)).is_some() {
        // A row with this text is written with %3A.
        return Ok(not_allowed(&request.parts.method, request.parts.uri.path()));
    }
    let table = request.table(Right::Read)?;
    request.spend(1)?;
    let query = request.query(&["column"])?;
    let cell = cell(request.service(), &table, &request.part(4)?, &query)?;
    let counters = read(&mut request, &table, &[cell]).await?;
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
    responses((status = 200, body = Counters, description = "The counters."))
)]
pub async fn many(mut request: RequestContext) -> HttpResult {
    let table = request.table(Right::Read)?;
    let query = request.query(&["row", "column", "prefix", "limit", "after"])?;
    let rows: Vec<&[u8]> = query.all("row").collect();
    if rows.is_empty() {
        request.spend(1)?;
        return Ok(json::ok(&list_counters::page(&mut request, &table, &query).await?));
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
    let cells = rows.iter().map(|row| cell(request.service(), &table, row, &query));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    let counters = read(&mut request, &table, &cells).await?;
    Ok(json::ok(&Counters { counters, next: None }))
}
