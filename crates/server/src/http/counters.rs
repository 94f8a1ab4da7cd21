//! Counters: changing one, reading one, reading many.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jeton_auth::Right;
use jeton_core::{Cell, Change, Durability, Operation, Table, Value};
use jeton_engine::{Ask, EngineError, Response as Answered};
use serde::Serialize;
use utoipa::ToSchema;

use super::change_body::{AddBody, ChangeKind, ParsedChange, PlainBody, PutBody, SetBody, column};
use super::outcome_body::{Outcome, durability};
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::query::Query;
use super::request_context::{RequestContext, decoded};
use super::{date, json, list_counters};
use crate::Service;

/// The most rows that are read by one request.
pub const ROWS_MAX: usize = 1000;

/// What a cell holds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"row": "page-7", "value": 7, "value_text": "7", "exists": true}))]
pub struct Counter {
    /// The row, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The row as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_base64: Option<String>,
    /// The column, if it has a name and that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The column as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column_base64: Option<String>,
    /// The counter; 0 if there is none, null if the cell holds bytes.
    pub value: Option<i64>,
    /// The same as text, for programs whose numbers end at 2^53.
    pub value_text: Option<String>,
    /// Whether the cell holds anything.
    pub exists: bool,
    /// What the cell holds, if that is text and no counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the cell holds as base64, if that is no counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// When the cell will be empty, if it is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
    /// "relaxed", if a crash may take back what this shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<&'static str>,
}

/// Counters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counters {
    /// The counters: in the order of the rows that were asked for, or in an order of the store's own.
    pub counters: Vec<Counter>,
    /// Where to go on, as `after`; null if there is nothing more.
    pub next: Option<String>,
}

impl Counter {
    /// What a cell holds.
    pub fn new(table: &Table, cell: &Cell, value: Option<Value>) -> Self {
        let (row, column) = cell.row_and_column();
        let (row, row_base64) = text_or_base64(row);
        let (column, column_base64) =
            if column.is_empty() { (None, None) } else { text_or_base64(column.to_vec()) };
        let exists = value.is_some();
        let expires = value.as_ref().and_then(Value::until).map(date::format);
        let (counter, bytes) = match value.map(Value::plain) {
            None => (Some(0), None),
            Some(Value::Bytes(bytes)) => (None, Some(bytes)),
            Some(value) => (value.counter(), None),
        };
        let relaxed = table.settings().durability == Durability::Relaxed;
        Self {
            row,
            row_base64,
            column,
            column_base64,
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

/// Bytes as text, or if they are none, as base64.
pub fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// What a read was answered.
pub fn value(answered: Answered) -> Result<Option<Value>, Problem> {
    match answered {
        Answered::Read(value) => Ok(value?),
        Answered::Applied(Err(refusal)) | Answered::Recalled(Err(refusal)) => Err(refusal.into()),
        _ => Err(EngineError::Storage("a read was answered as something else".into()).into()),
    }
}

/// The cells of rows, read together.
pub async fn read(asked: &RequestContext, table: &Table, cells: Vec<Cell>) -> Result<Vec<Counter>, Problem> {
    let asks = cells.iter().cloned().map(Ask::Read).collect();
    let answers = asked.app.submit_batch(&asked.pass, asks).await?;
    cells.iter().zip(answers).map(|(cell, answer)| Ok(Counter::new(table, cell, value(answer)?))).collect()
}

/// `POST /v1/tables/{table}/counters/{row}:{verb}`.
pub async fn post(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    // The last colon that is not encoded: rows may have some of their own.
    let last = asked.raw_part(4).to_owned();
    let found = last
        .rsplit_once(':')
        .and_then(|(row, verb)| Some((row, ChangeKind::ALL.into_iter().find(|known| known.name() == verb)?)));
    let Some((row, verb)) = found else {
        let detail =
            "what to do with a counter is said at the end of its path: :add, :set, :reset, :delete or :put";
        return Err(Problem::new(ErrorCode::NotFound, detail));
    };
    let row = decoded(row)?;
    let table = asked.table(verb.right())?;
    asked.spend(1)?;
    let wanted = match verb {
        ChangeKind::Add => add(&mut asked).await?,
        ChangeKind::Set => set(&mut asked).await?,
        ChangeKind::Reset => reset(&mut asked).await?,
        ChangeKind::Delete => delete(&mut asked).await?,
        ChangeKind::Put => put(&mut asked).await?,
    };
    let operation = single(&asked, &table, &row, wanted)?;
    let partition = operation.partition();
    let reply = asked.app.apply(&asked.pass, operation).await?;
    Ok(Outcome::of(&table, partition, &reply).respond())
}

fn single(
    asked: &RequestContext,
    table: &Table,
    row: &[u8],
    wanted: ParsedChange,
) -> Result<Operation, Problem> {
    let id = asked.id(wanted.id, table.settings().formats)?;
    let cell = asked.service().engine.cell(table, row, &wanted.column)?;
    Ok(Operation::single(id, cell, wanted.change)?)
}

/// Adds to a counter, once.
///
/// However often the same id comes, it counts once, and every retry gets the first answer, marked `replayed`. With `min` or `max` the
/// sum is kept within bounds: a refusal is an answer too (`applied: false`), and is remembered like any other.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:add", operation_id = "addToCounter", tag = "counters", request_body = AddBody,
    params(
        ("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F."),
        ("Idempotency-Key" = Option<String>, Header, description = "The id, as a string in quotes (draft-ietf-httpapi-idempotency-key-header-06)."),
    ),
    responses(
        (status = 200, body = Outcome, description = "What became of it. On a replay with `Idempotency-Replayed: true`."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "id-required, id-invalid, id-conflict, id-from-future, epoch-ahead, bad-json, bad-operation: mend it, keep the id."),
        (status = 401, body = ProblemBody, content_type = "application/problem+json", description = "No valid token."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "The token lacks the right `add`."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "outcome-unknown (retry with the same id), unknown-session, fenced, overflow, not-a-counter."),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "id-expired: it is not known any more whether this id was counted, and it is not counted now."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "id-mismatch: the id was used for another operation."),
        (status = 429, body = ProblemBody, content_type = "application/problem+json", description = "throttled: more than the rate of the token."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "busy, full or closing: retry with the same id."),
    )
)]
pub async fn add(asked: &mut RequestContext) -> Result<ParsedChange, Problem> {
    asked.json::<AddBody>().await?.wanted()
}

/// Makes a counter of a value. Needs the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:set", operation_id = "setCounter", tag = "counters", request_body = SetBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "What became of it."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn set(asked: &mut RequestContext) -> Result<ParsedChange, Problem> {
    asked.json::<SetBody>().await?.wanted()
}

/// Makes a counter at zero. Needs the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:reset", operation_id = "resetCounter", tag = "counters", request_body = PlainBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "What became of it."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn reset(asked: &mut RequestContext) -> Result<ParsedChange, Problem> {
    asked.json::<PlainBody>().await?.wanted(Change::Reset)
}

/// Empties a cell. Needs the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:delete", operation_id = "deleteCounter", tag = "counters", request_body = PlainBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "What became of it; the value is null."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn delete(asked: &mut RequestContext) -> Result<ParsedChange, Problem> {
    asked.json::<PlainBody>().await?.wanted(Change::Delete)
}

/// Makes a cell hold bytes instead of a counter. Needs the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/counters/{row}:put", operation_id = "putBytes", tag = "counters", request_body = PutBody,
    params(("table" = String, Path, description = "The table."), ("row" = String, Path, description = "The row, percent-encoded.")),
    responses((status = 200, body = Outcome, description = "What became of it; the value is null."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn put(asked: &mut RequestContext) -> Result<ParsedChange, Problem> {
    asked.json::<PutBody>().await?.wanted()
}

/// Reads a counter.
///
/// A counter that does not exist reads as 0 with `exists: false`: adding to it works at once, so there is nothing wrong with it.
#[utoipa::path(
    get, path = "/v1/tables/{table}/counters/{row}", operation_id = "readCounter", tag = "counters",
    params(("table" = String, Path, description = "The table."),
        ("row" = String, Path, description = "The row: any bytes, percent-encoded; a slash is %2F."),
        ("column" = Option<String>, Query, description = "The column, as family:qualifier.")),
    responses((status = 200, body = Counter, description = "What the cell holds."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."))
)]
pub async fn get(asked: RequestContext) -> Result<Response<Body>, Problem> {
    let table = asked.table(Right::Read)?;
    asked.spend(1)?;
    let query = asked.query(&["column"])?;
    let cell = cell(asked.service(), &table, &asked.part(4)?, &query)?;
    let counters = read(&asked, &table, vec![cell]).await?;
    match &counters[..] {
        [counter] => Ok(json::response(StatusCode::OK, counter)),
        _ => Err(EngineError::Closed.into()),
    }
}

fn cell(service: &Service, table: &Table, row: &[u8], query: &Query) -> Result<Cell, Problem> {
    Ok(service.engine.cell(table, row, &column(query.one("column")?)?)?)
}

/// Reads many counters: those of given rows, or all whose rows begin alike, a page at a time.
///
/// With `row`, which may be repeated, each is read, whether it exists or not. Without, the counters of the table are listed: those that
/// were there before the first page was asked for, in an order of the store's own; `next` of a page is `after` for the next one.
#[utoipa::path(
    get, path = "/v1/tables/{table}/counters", operation_id = "readCounters", tag = "counters",
    params(("table" = String, Path, description = "The table."),
        ("row" = Option<Vec<String>>, Query, description = "A row to read; up to 1000 of them."),
        ("column" = Option<String>, Query, description = "With `row`: the column, as family:qualifier."),
        ("prefix" = Option<String>, Query, description = "What the rows begin with."),
        ("limit" = Option<u32>, Query, description = "The most counters of a page: 1 to 1000, 100 if not said."),
        ("after" = Option<String>, Query, description = "Where to go on: `next` of the page before.")),
    responses((status = 200, body = Counters, description = "The counters."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "A query that cannot be."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-table."))
)]
pub async fn many(asked: RequestContext) -> Result<Response<Body>, Problem> {
    let table = asked.table(Right::Read)?;
    let query = asked.query(&["row", "column", "prefix", "limit", "after"])?;
    let rows: Vec<&[u8]> = query.all("row").collect();
    if rows.is_empty() {
        asked.spend(1)?;
        return Ok(json::response(StatusCode::OK, &list_counters::page(&asked, &table, &query).await?));
    }
    if rows.len() > ROWS_MAX {
        let detail = format!("at most {ROWS_MAX} rows are read at a time, not {}", rows.len());
        return Err(Problem::new(ErrorCode::BadRequest, detail));
    }
    for name in ["prefix", "limit", "after"] {
        if query.one(name)?.is_some() {
            let detail =
                format!("`{name}` is for listing, and `row` for reading given rows: use one of them");
            return Err(Problem::new(ErrorCode::BadRequest, detail));
        }
    }
    asked.spend(rows.len())?;
    let cells =
        rows.iter().map(|row| cell(asked.service(), &table, row, &query)).collect::<Result<_, _>>()?;
    let counters = read(&asked, &table, cells).await?;
    Ok(json::response(StatusCode::OK, &Counters { counters, next: None }))
}
