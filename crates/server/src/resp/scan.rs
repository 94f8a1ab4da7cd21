//! Scans over all keys of the default table: `SCAN`, `DBSIZE`, `FLUSHALL`.
//!
//! A scan starts by checkpointing all decided operations into the value store, and then lists the store. It
//! reads each key again before it reports it. A scan therefore reports every key that exists from its start
//! to its end, and no deleted key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jeton_auth::Right;
use jeton_core::{Cell, Table};
use jeton_engine::Ask;

use super::command_table::CommandSpec;
use super::glob::Glob;
use super::keyspace::integer;
use super::multi_step::delete;
use super::pipeline::BATCH_READS_MAX;
use super::reply::{self, Reply, SYNTAX};
use super::session::Session;
use super::turn::Turn;
use crate::service::{Service, read_value};

/// Default of `COUNT`.
const PAGE: usize = 10;

/// Maximum of `COUNT`.
const PAGE_MAX: usize = 4000;

/// Time after which `SCAN` ends its page early, if the pattern is expensive.
const MATCH_TIME_MAX: Duration = Duration::from_millis(50);

/// Keys read, counted or deleted per step.
const STRIDE: usize = 1000;

const NO_FLUSH: &str = "ERR deleting all counters is not allowed here; start the server with --allow-flush";

const NO_FLUSH_IN_CLUSTER: &str = "ERR a cluster does not delete all counters at once; delete keys with DEL";

/// Open `SCAN` cursors. A cursor must be a number, so the position in the store is kept here. The oldest are
/// dropped first; using a dropped cursor is an error, and so is one of another process, such as another node
/// of a cluster.
#[derive(Debug)]
pub struct Cursors {
    next: AtomicU64,
    positions: Mutex<BTreeMap<u64, Cell>>,
}

/// Processes begin at random numbers below this. Some clients read cursors as doubles.
const FIRST_CURSOR_MAX: u64 = 1 << 52;

impl Default for Cursors {
    fn default() -> Self {
        // Without randomness a cursor of another process continues at another position.
        let first = getrandom::u64().unwrap_or_default() % FIRST_CURSOR_MAX;
        Self { next: AtomicU64::new(first), positions: Mutex::default() }
    }
}

const CURSORS_MAX: usize = 10_000;

impl Cursors {
    fn insert(&self, position: Cell) -> u64 {
        let number = 1 + self.next.fetch_add(1, Ordering::Relaxed);
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        positions.insert(number, position);
        while positions.len() > CURSORS_MAX {
            positions.pop_first();
        }
        number
    }

    fn find(&self, cursor: u64) -> Option<Cell> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).get(&cursor).cloned()
    }
}

pub async fn run(spec: &CommandSpec, arguments: &[Vec<u8>], session: &mut Session) -> Result<Reply, String> {
    let service = session.service.clone();
    let right = if spec.name.starts_with("FLUSH") { Right::Admin } else { Right::Read };
    let table = session.table(&service.options.default_table, right)?;
    match spec.name {
        "SCAN" => scan(arguments, &table, &service).await,
        "DBSIZE" => {
            let (mut keys, mut after) = (0, None);
            service.engine.stored().await.map_err(reply::engine_error)?;
            loop {
                let (page, last) = page(&service, &table, b"", after, STRIDE).await?;
                keys += page.len() as i64;
                after = last;
                if after.is_none() {
                    return Ok(Reply::Integer(keys));
                }
            }
        }
        _ => {
            let is_mode =
                |mode: &[u8]| mode.eq_ignore_ascii_case(b"ASYNC") || mode.eq_ignore_ascii_case(b"SYNC");
            if arguments.len() > 2 || !arguments[1..].iter().all(|mode| is_mode(mode)) {
                return Err(SYNTAX.into());
            }
            if service.engine.local().is_none() {
                return Err(NO_FLUSH_IN_CLUSTER.into());
            }
            if !service.options.allow_flush {
                return Err(NO_FLUSH.into());
            }
            service.engine.stored().await.map_err(reply::engine_error)?;
            let mut after = None;
            loop {
                let cells = list(&service, &table, b"", after, STRIDE).await?;
                after = cells.last().cloned();
                if after.is_none() {
                    return Ok(Reply::Ok);
                }
                delete(cells, session).await?;
            }
        }
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE string]`.
async fn scan(arguments: &[Vec<u8>], table: &Arc<Table>, service: &Arc<Service>) -> Result<Reply, String> {
    let cursor = match &arguments[1][..] {
        // Redis accepts an empty cursor as 0.
        b"" => Some(0),
        text => std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()),
    };
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let (mut pattern, mut count, mut strings) = (Glob::parse(b"*")?, PAGE, true);
    for pair in arguments[2..].chunks(2) {
        let [option, argument] = pair else { return Err(SYNTAX.into()) };
        match &option.to_ascii_uppercase()[..] {
            b"MATCH" => pattern = Glob::parse(argument)?,
            b"COUNT" => {
                count = usize::try_from(integer(argument)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            b"TYPE" => strings = argument.eq_ignore_ascii_case(b"string"),
            _ => return Err(SYNTAX.into()),
        }
    }
    let after = match cursor {
        0 => {
            service.engine.stored().await.map_err(reply::engine_error)?;
            None
        }
        _ => {
            let position = service.cursors.find(cursor);
            Some(position.ok_or("ERR invalid cursor: it was dropped; start again at 0")?)
        }
    };
    // The prefix before the first wildcard is looked up in the store; the rest is matched here. A row that
    // contains a slash is reported with its table name, because the part before the slash would otherwise be
    // taken for a table. A pattern that may match the table name therefore scans all rows.
    let home = [table.name.as_bytes(), b"/"].concat();
    let mut prefix = pattern.prefix();
    if prefix.starts_with(&home) || home.starts_with(&prefix) {
        prefix.clear();
    }
    let (cells, mut last) = page(service, table, &prefix, after, count.min(PAGE_MAX)).await?;
    let (mut names, mut turn, start) = (Vec::new(), Turn::start(), Instant::now());
    for cell in cells {
        let name = match cell.row_and_column().0 {
            row if row.contains(&b'/') => [&home[..], &row].concat(),
            row => row,
        };
        if strings && pattern.matches(&name) {
            names.push(Reply::Bulk(name));
        }
        if start.elapsed() > MATCH_TIME_MAX {
            last = Some(cell);
            break;
        }
        turn.yield_at_end().await;
    }
    let next = last.map_or(0, |last| service.cursors.insert(last));
    Ok(Reply::Array(vec![Reply::from(&*next.to_string()), Reply::Array(names)]))
}

/// Cells of the value store, deleted and expired ones included.
async fn list(
    service: &Arc<Service>,
    table: &Arc<Table>,
    prefix: &[u8],
    after: Option<Cell>,
    limit: usize,
) -> Result<Vec<Cell>, String> {
    let (service, table, prefix) = (service.clone(), table.clone(), prefix.to_vec());
    let listed =
        tokio::task::spawn_blocking(move || service.engine.list(&table, &prefix, after.as_ref(), limit));
    match listed.await {
        Ok(cells) => cells.map_err(reply::engine_error),
        Err(error) => Err(format!("ERR the scan failed: {error}")),
    }
}

/// Keys with a value, and the cell to continue after; `None` at the end.
async fn page(
    service: &Arc<Service>,
    table: &Arc<Table>,
    prefix: &[u8],
    after: Option<Cell>,
    limit: usize,
) -> Result<(Vec<Cell>, Option<Cell>), String> {
    let mut cells = list(service, table, prefix, after, limit).await?;
    let last = if cells.len() < limit { None } else { cells.last().cloned() };
    // Only cells without a column are keys.
    cells.retain(|cell| cell.row_and_column().1.is_empty());
    let mut present = Vec::with_capacity(cells.len());
    for cells in cells.chunks(BATCH_READS_MAX) {
        let _reserved = service.client_memory.reserve_reads(cells.len()).await;
        let reads = cells.iter().map(|cell| Ask::Read(cell.clone())).collect();
        for (cell, response) in cells.iter().zip(service.submit_batch(reads).await) {
            if read_value(response).map_err(reply::engine_error)?.is_some() {
                present.push(cell.clone());
            }
        }
    }
    Ok((present, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cursors_are_dropped() {
        let (cursors, other) = (Cursors::default(), Cursors::default());
        let secret = jeton_core::Secret::new([1; 16]);
        let cell =
            Cell::new(&secret, jeton_core::TableId(1), b"a", &jeton_core::Column::unnamed()).expect("a cell");
        let first = cursors.insert(cell.clone());
        assert_eq!(cursors.find(first), Some(cell.clone()));
        other.insert(cell.clone());
        assert_eq!(other.find(first), None, "a cursor of another process");
        let last = (0..CURSORS_MAX).map(|_| cursors.insert(cell.clone())).last();
        assert_eq!(cursors.find(first), None);
        assert!(last.and_then(|last| cursors.find(last)).is_some());
    }
}
