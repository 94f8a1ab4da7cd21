//! Lists the counters of a table by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jeton_core::{Cell, Column, Table};

use super::counters::{Counter, Counters, ROWS_MAX};
use super::problem::Problem;
use super::query::Query;
use super::request_context::RequestContext;
use crate::Service;

const PAGE: usize = 100;

/// Maximum number of reads for a page. A page ends early if the store lists only empty cells.
const ROUNDS_MAX: usize = 16;

pub async fn page(
    request: &mut RequestContext,
    table: &std::sync::Arc<Table>,
    query: &Query,
) -> Result<Counters, Problem> {
    if query.one("column")?.is_some() {
        return Err(Problem::bad_request("`column` requires `row`; a list has all columns"));
    }
    let limit = query.number("limit", PAGE, ROWS_MAX)?;
    let prefix = query.one("prefix")?.unwrap_or_default().to_vec();
    let mut after = match query.text("after")? {
        Some(cursor) => Some(read_cursor(request.service(), table, &prefix, cursor)?),
        None => {
            // A flush, so that the list has every acknowledged change. Later pages may or may not have later
            // changes.
            request.app.in_time(request.service().engine.stored()).await??;
            None
        }
    };
    let mut counters = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let missing = limit - counters.len();
        let (this, prefix, from) = (table.clone(), prefix.clone(), after.clone());
        let list = move |service: &Service| service.engine.list(&this, &prefix, from.as_ref(), missing);
        let cells = request.app.run_blocking(list).await??;
        let is_last = cells.len() < missing;
        let values = request.read_all(&cells).await?;
        after = cells.last().cloned().or(after);
        // A cell may have been deleted or have expired since the flush.
        let listed = cells.iter().zip(values).filter(|(_, value)| value.is_some());
        counters.extend(listed.map(|(cell, value)| Counter::new(table, cell, value)));
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

/// Parses the cursor, which is untrusted: it must be a cell of this table with this prefix.
fn read_cursor(service: &Service, table: &Table, prefix: &[u8], cursor: &str) -> Result<Cell, Problem> {
    let parse = || {
        let cell = Cell::from_bytes(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (row, column) = cell.row_and_column();
        let column = if column.is_empty() { Column::unnamed() } else { Column::parse(column).ok()? };
        let same = service.engine.cell(table, &row, &column).ok()?;
        (same == cell && row.starts_with(prefix)).then_some(cell)
    };
    parse().ok_or_else(|| {
        Problem::bad_request(
            "`after` is not `next` of a page of this table with this prefix; start without it",
        )
    })
}
