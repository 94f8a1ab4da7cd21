//! The writer: executes the writes in the queue in groups, one statement and one commit for each group.

use std::collections::HashMap;

use bytes::Bytes;
use jeton_register::{Batch, Error as RegisterError, LogId, Slot, WriteQueueReceiver, WriteResult};
use tokio::time::{Instant, timeout};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::connection::{ReconnectingSession, Session};
use crate::connector::Connector;
use crate::error::{StatementError, unreachable};
use crate::log_id::Id;
use crate::options::Options;

/// The most of one statement.
const GROUP_WRITES_MAX: usize = 4096;
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How often a group is repeated: because of a conflict with another transaction, because of writes to a dense
/// log that follow one another, or because of a register that was neither empty nor found, which only a
/// manual deletion of rows can cause.
const ROUNDS_MAX: usize = 64;

/// Writes what is in the queue until it is closed.
pub async fn run(
    connector: Connector,
    options: Options,
    mut queue: WriteQueueReceiver<Batch, Vec<WriteResult>>,
) {
    let mut sessions = ReconnectingSession::new(connector, options);
    loop {
        let (mut writes, mut bytes) = (0, 0);
        let fits = |batch: &Batch| {
            writes += batch.len();
            bytes += batch.value_bytes();
            writes <= GROUP_WRITES_MAX && bytes <= GROUP_BYTES_MAX
        };
        let Some(group) = queue.next_group(fits).await else { return };
        let writes = group.iter().flat_map(|queued| queued.request.iter()).collect();
        match write_all(&mut sessions, writes).await {
            Ok(results) => {
                let mut results = results.into_iter();
                for queued in group {
                    let len = queued.request.len();
                    queued.respond(Ok(results.by_ref().take(len).collect()));
                }
            }
            Err(error) => queue.fail(group, &error),
        }
    }
}

type Write<'a> = (LogId, Slot, &'a [u8]);

async fn write_all(
    sessions: &mut ReconnectingSession,
    writes: Vec<Write<'_>>,
) -> Result<Vec<WriteResult>, RegisterError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let deadline = Instant::now() + sessions.options().connect_timeout;
    let statement_timeout = sessions.options().statement_timeout;
    let session = sessions.session(deadline).await.map_err(|error| unreachable(&error))?;
    let mut results: Vec<Option<WriteResult>> = vec![None; writes.len()];
    // After an insert only a complete round has the results: a repeated one would find the rows of this one.
    let mut inserted = false;
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..writes.len()).filter(|&place| results[place].is_none()).collect();
        if open.is_empty() {
            return Ok(results.into_iter().flatten().collect());
        }
        let round = round(&session, &writes, &open, &mut results, &mut inserted);
        let error = match timeout(statement_timeout, round).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => StatementError::of(&error),
            Err(_) => StatementError::Lost("no response".into()),
        };
        match error {
            StatementError::Conflict(_) if !inserted => {}
            StatementError::Conflict(text) => return Err(RegisterError::Unknown(text)),
            StatementError::Refused(error) if !inserted => return Err(error),
            StatementError::Refused(error) => return Err(RegisterError::Unknown(error.to_string())),
            StatementError::Lost(text) => {
                sessions.discard(&session);
                return Err(RegisterError::Unknown(text));
            }
        }
    }
    Err(RegisterError::Unknown(format!("no result after {ROUNDS_MAX} rounds")))
}

/// Executes the writes at the positions `open`, and sets their results. Sets `has_inserted` if it inserted
/// rows.
async fn round(
    session: &Session,
    writes: &[Write<'_>],
    open: &[usize],
    results: &mut [Option<WriteResult>],
    has_inserted: &mut bool,
) -> Result<(), Error> {
    let (client, statements) = (&session.client, &session.statements);
    let keys = Keys::of(writes, open);
    let values: Vec<&[u8]> = open.iter().map(|&place| writes[place].2).collect();
    let names: &[&(dyn ToSql + Sync)] = &[&keys.kinds, &keys.logs, &keys.slots];
    let whole: &[&(dyn ToSql + Sync)] = &[&keys.kinds, &keys.logs, &keys.slots, &values];
    // Sent together; the second starts when the first is committed.
    let (inserted, marked) = tokio::join!(
        biased;
        client.query(&statements.insert, whole),
        client.query(&statements.marked, names),
    );
    let inserted = inserted?;
    *has_inserted |= !inserted.is_empty();
    let marked = marked?;
    let mut first: HashMap<(i16, Id, i64), usize> = HashMap::with_capacity(inserted.len());
    for row in &inserted {
        first.insert((row.get(0), row.get(1), row.get(2)), usize::MAX);
    }
    for index in (0..open.len()).rev() {
        if let Some(place) = first.get_mut(&keys.key(index)) {
            *place = open[index];
        }
    }
    for place in first.into_values() {
        results[place] = Some(WriteResult::Fresh);
    }
    for row in marked {
        results[open[row.get::<_, i64>(0) as usize - 1]] = Some(WriteResult::Trimmed);
    }
    let left: Vec<usize> = open.iter().copied().filter(|&place| results[place].is_none()).collect();
    if left.is_empty() {
        return Ok(());
    }
    let keys = Keys::of(writes, &left);
    let rows = client.query(&statements.values, &[&keys.kinds, &keys.logs, &keys.slots]).await?;
    for row in rows {
        let place = left[row.get::<_, i64>(0) as usize - 1];
        results[place] = match row.get::<_, Option<&[u8]>>(2) {
            _ if row.get(1) => Some(WriteResult::Trimmed),
            Some(value) => Some(WriteResult::Taken(Bytes::copy_from_slice(value))),
            // What this round has inserted may be the register before it.
            None if writes[place].0.kind.is_dense() && inserted.is_empty() => Some(WriteResult::Gap),
            None => None,
        };
    }
    Ok(())
}

/// The keys of registers, as columns.
struct Keys {
    kinds: Vec<i16>,
    logs: Vec<Id>,
    slots: Vec<i64>,
}

impl Keys {
    fn of(writes: &[Write<'_>], places: &[usize]) -> Self {
        let names = || places.iter().map(|&place| (writes[place].0, writes[place].1));
        Self {
            kinds: names().map(|(log, _)| log.kind as i16).collect(),
            logs: names().map(|(log, _)| Id(log.id)).collect(),
            slots: names().map(|(_, slot)| slot.0 as i64).collect(),
        }
    }

    fn key(&self, index: usize) -> (i16, Id, i64) {
        (self.kinds[index], self.logs[index], self.slots[index])
    }
}
