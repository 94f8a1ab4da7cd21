//! Scans over all keys of the default table: `SCAN`, `DBSIZE`, `FLUSHALL`.
//!
//! A scan starts by checkpointing all decided operations into the value store, and then lists the store. It
//! reads each key again before it reports it. A scan therefore reports every key that exists from its start
//! to its end, and no deleted key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jeton_auth::Right;
use jeton_core::{Cell, Table};
use jeton_engine::Ask;

use super::command_table::CommandSpec;
use super::keyspace::integer;
use super::multi_step::delete;
use super::pipeline::BATCH_READS_MAX;
use super::reply::{self, Reply, SYNTAX};
use super::session::Session;
use crate::service::{Service, read_value};

/// Default of `COUNT`.
const PAGE: usize = 10;

/// Maximum of `COUNT`.
const PAGE_MAX: usize = 4000;

/// Keys counted or deleted per step.
const STRIDE: usize = 1000;

const NO_FLUSH: &str = "ERR deleting all counters is not allowed here; start the server with --allow-flush";

/// Open `SCAN` cursors. A cursor must be a number, so the position in the store is kept here. The oldest are
/// dropped first; using a dropped cursor is an error.
#[derive(Debug, Default)]
pub struct Cursors {
    next: AtomicU64,
    positions: Mutex<BTreeMap<u64, Cell>>,
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
    let (mut pattern, mut count, mut strings) = (&b"*"[..], PAGE, true);
    for pair in arguments[2..].chunks(2) {
        let [option, argument] = pair else { return Err(SYNTAX.into()) };
        match &option.to_ascii_uppercase()[..] {
            b"MATCH" => pattern = argument,
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
    let literal = literal(pattern);
    let prefix = if literal.starts_with(&home) || home.starts_with(literal) { b"" } else { literal };
    let (cells, last) = page(service, table, prefix, after, count.min(PAGE_MAX)).await?;
    let next = last.map_or(0, |last| service.cursors.insert(last));
    let names = cells.iter().map(|cell| match cell.row_and_column().0 {
        row if row.contains(&b'/') => [&home[..], &row].concat(),
        row => row,
    });
    let names = names.filter(|name| strings && matches(pattern, name)).map(Reply::Bulk).collect();
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

/// The prefix of a pattern before its first wildcard.
fn literal(pattern: &[u8]) -> &[u8] {
    let wild = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    &pattern[..wild.unwrap_or(pattern.len())]
}

/// Whether a name matches a pattern: `*` any bytes, `?` one byte, `[a-z]` and `[^a]` classes, `\` escapes a
/// byte.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Backtracking position after the last star: the pattern after it, and the byte to retry from.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, in_name));
                at += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => class(&pattern[at..], name[in_name]),
            Some(b'\\') if at + 1 < pattern.len() => (pattern[at + 1] == name[in_name]).then_some(2),
            Some(byte) => (*byte == name[in_name]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => {
                at += step;
                in_name += 1;
            }
            (None, Some((after_star, from))) => {
                star = Some((after_star, from + 1));
                (at, in_name) = (after_star, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the class at the start of a pattern, if the byte is in it. An unclosed class extends to the
/// end.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut found = false;
    while let Some(first) = pattern.get(at) {
        match (first, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', ..) => break,
            (b'\\', Some(escaped), _) => {
                found |= *escaped == byte;
                at += 2;
            }
            (_, Some(b'-'), Some(last)) => {
                let (low, high) = (first.min(last), first.max(last));
                found |= (*low..=*high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= *first == byte;
                at += 1;
            }
        }
    }
    let length = (at + 1).min(pattern.len());
    (found != negated).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let fits = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        for (pattern, matching, other) in [
            ("*", ["", "a"], [].as_slice()),
            ("", ["", ""], &["a"]),
            ("a", ["a", "a"], &["", "ab"]),
            ("?", ["a", "?"], &[""]),
            ("a*", ["a", "ab"], &["b"]),
            ("a**", ["a", "ab"], &["b"]),
            ("a*c", ["ac", "abbc"], &["abcd"]),
            ("*b*", ["b", "abc"], &["ac"]),
            ("h?llo", ["hello", "hallo"], &["hllo"]),
            ("h[ae]llo", ["hallo", "hello"], &["hillo"]),
            ("h[^e]llo", ["hallo", "hillo"], &["hello"]),
            ("h[a-c]llo", ["hallo", "hbllo"], &["hdllo"]),
            ("h[c-a]llo", ["hallo", "hbllo"], &["hdllo"]),
            ("[abc", ["a", "b"], &["d"]),
            ("[\\]]", ["]", "]"], &["\\"]),
            ("\\*", ["*", "*"], &["a"]),
            ("a\\?", ["a?", "a?"], &["ab"]),
            ("*a*a*a", ["aaa", "abaca"], &["aa"]),
        ] {
            assert!(matching.into_iter().all(|name| fits(pattern, name)), "{pattern} {matching:?}");
            assert!(!other.iter().any(|name| fits(pattern, name)), "{pattern} {other:?}");
        }
        // Matching is not exponential in the number of stars.
        assert!(!fits(&"a*".repeat(50), &"a".repeat(40)));
        assert_eq!(literal(b"user/*"), b"user/");
        assert_eq!(literal(b"abc"), b"abc");
    }

    #[test]
    fn the_oldest_cursors_are_dropped() {
        let cursors = Cursors::default();
        let secret = jeton_core::Secret::new([1; 16]);
        let cell =
            Cell::new(&secret, jeton_core::TableId(1), b"a", &jeton_core::Column::unnamed()).expect("a cell");
        let first = cursors.insert(cell.clone());
        assert_eq!(cursors.find(first), Some(cell.clone()));
        let last = (0..CURSORS_MAX).map(|_| cursors.insert(cell.clone())).last();
        assert_eq!(cursors.find(first), None);
        assert!(last.and_then(|last| cursors.find(last)).is_some());
    }
}
