//! Listing the counters of a table, a page at a time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jeton_core::{Cell, Column, Table};
use jeton_engine::Ask;

use super::counters::{Counter, Counters, ROWS_MAX, value};
use super::problem::{ErrorCode, Problem};
use super::query::Query;
use super::request_context::RequestContext;
use crate::Service;

/// Counters of a page, unless another number is asked for.
const PAGE: usize = 100;

/// How often the store is asked for more cells because those it named were empty, before a page ends with what it has.
const ROUNDS_MAX: usize = 16;

/// A page of counters.
pub async fn page(
    asked: &RequestContext,
    table: &std::sync::Arc<Table>,
    query: &Query,
) -> Result<Counters, Problem> {
    if query.one("column")?.is_some() {
        return Err(Problem::new(
            ErrorCode::BadRequest,
            "`column` goes with `row`; a listing shows all columns",
        ));
    }
    let limit = query.number("limit", PAGE, ROWS_MAX)?;
    let prefix = query.one("prefix")?.unwrap_or_default().to_vec();
    let mut after = match query.text("after")? {
        Some(cursor) => Some(read_cursor(asked.service(), table, &prefix, cursor)?),
        None => {
            // What was acknowledged before is listed. Once is enough: what comes later may be on later pages or not.
            asked.app.in_time(asked.service().engine.stored()).await??;
            None
        }
    };
    let mut counters = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let wanted = limit - counters.len();
        let (this, prefix, from) = (table.clone(), prefix.clone(), after.clone());
        let list = move |service: &Service| service.engine.list(&this, &prefix, from.as_ref(), wanted);
        let cells = asked.app.aside(list).await??;
        let is_last = cells.len() < wanted;
        let answers =
            asked.app.submit_batch(&asked.pass, cells.iter().cloned().map(Ask::Read).collect()).await?;
        after = cells.last().cloned().or(after);
        for (cell, answer) in cells.iter().zip(answers) {
            // It may have been deleted, or be over, since the store wrote it down.
            if let Some(value) = value(answer)? {
                counters.push(Counter::new(table, cell, Some(value)));
            }
        }
        if is_last {
            return Ok(Counters { counters, next: None });
        }
        if counters.len() >= limit {
            break;
        }
    }
    let next = after.map(|cell| URL_SAFE_NO_PAD.encode(cell.as_bytes()));
    Ok(Counters { counters, next })
}

/// The cell that a page ended with. It comes from a stranger: it must be a cell of this table, and of these rows.
fn read_cursor(service: &Service, table: &Table, prefix: &[u8], cursor: &str) -> Result<Cell, Problem> {
    let wrong = || {
        let detail = "`after` is not `next` of a page of this table with this prefix; begin without it";
        Problem::new(ErrorCode::BadRequest, detail)
    };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| wrong())?;
    let cell = Cell::from_bytes(&bytes).map_err(|_| wrong())?;
    let (row, column) = cell.row_and_column();
    let column =
        if column.is_empty() { Column::unnamed() } else { Column::parse(column).map_err(|_| wrong())? };
    let same = service.engine.cell(table, &row, &column).map_err(|_| wrong())?;
    if same == cell && row.starts_with(prefix) { Ok(cell) } else { Err(wrong()) }
}
