//! The writer: what waits is gathered into one statement, so that one commit serves all.
//!
//! There is no timer: a group is whatever came while the last one was on its way. What must hold: groups are written one after the other; and when one
//! fails, what waits behind it is refused. Otherwise something would become durable before what its caller wrote first.

use std::collections::HashMap;

use bytes::Bytes;
use jeton_register::{Batch, Error as RegisterError, LogId, Slot, WritePermit, WriteResult};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Error};

use crate::connection::{ReconnectingSession, Session};
use crate::error::{StatementError, unreachable};
use crate::log_id::Id;
use crate::options::Options;

/// The most of one statement.
const GROUP_WRITES_MAX: usize = 4096;
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How often a group is begun anew: because it stood in the way of another transaction, or because of a register that was neither empty nor
/// there, which only somebody can bring about who deletes rows by hand.
const ROUNDS_MAX: usize = 64;

/// A batch that waits.
pub struct QueuedBatch {
    pub batch: Batch,
    /// Its room in the queue.
    pub permit: WritePermit,
    pub reply: oneshot::Sender<Result<Vec<WriteResult>, RegisterError>>,
}

/// Writes what comes, until nothing can come any more.
pub async fn run(config: Config, options: Options, mut queue: mpsc::UnboundedReceiver<QueuedBatch>) {
    let mut link = ReconnectingSession::new(config, options);
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(waiting) => waiting,
            None => match queue.recv().await {
                Some(waiting) => waiting,
                None => return,
            },
        };
        let (mut writes, mut bytes) = (first.batch.len(), first.batch.value_bytes());
        let mut group = vec![first];
        while let Ok(waiting) = queue.try_recv() {
            writes += waiting.batch.len();
            bytes += waiting.batch.value_bytes();
            if writes > GROUP_WRITES_MAX || bytes > GROUP_BYTES_MAX {
                next = Some(waiting);
                break;
            }
            group.push(waiting);
        }
        let writes = group.iter().flat_map(|waiting| waiting.batch.iter()).collect();
        let result = write_all(&mut link, writes).await;
        // Taken out before anybody is answered: whoever comes because of the answer is not behind any more.
        let behind: Vec<QueuedBatch> = match &result {
            Ok(_) => Vec::new(),
            Err(_) => next.take().into_iter().chain(std::iter::from_fn(|| queue.try_recv().ok())).collect(),
        };
        let refusal = result.as_ref().err().map(|failure| format!("what came before it failed: {failure}"));
        answer(group, result);
        answer(behind, Err(RegisterError::Unavailable(refusal.unwrap_or_default())));
    }
}

fn answer(group: Vec<QueuedBatch>, result: Result<Vec<WriteResult>, RegisterError>) {
    let mut answers = result.map(Vec::into_iter);
    for QueuedBatch { batch, permit, reply } in group {
        let answer = match &mut answers {
            Ok(written) => Ok(written.by_ref().take(batch.len()).collect()),
            Err(failure) => Err(failure.clone()),
        };
        drop(permit);
        // Whoever does not wait any more does not want to know.
        drop(reply.send(answer));
    }
}

type Write<'a> = (LogId, Slot, &'a [u8]);

async fn write_all(
    link: &mut ReconnectingSession,
    writes: Vec<Write<'_>>,
) -> Result<Vec<WriteResult>, RegisterError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let deadline = Instant::now() + link.options().connect_patience;
    let patience = link.options().answer_patience;
    let session = link.session(deadline).await.map_err(|error| unreachable(&error))?;
    let mut answers: Vec<Option<WriteResult>> = vec![None; writes.len()];
    // Once something was inserted, only a whole answer tells what: another try would find what this one wrote.
    let mut inserted = false;
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..writes.len()).filter(|&place| answers[place].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        let round = round(&session, &writes, &open, &mut answers, &mut inserted);
        let trouble = match timeout(patience, round).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => StatementError::of(&error),
            Err(_) => StatementError::Lost("no answer".into()),
        };
        match trouble {
            StatementError::Again(_) if !inserted => {}
            StatementError::Again(text) => return Err(RegisterError::Unknown(text)),
            StatementError::Refused(failure) if !inserted => return Err(failure),
            StatementError::Refused(failure) => return Err(RegisterError::Unknown(failure.to_string())),
            StatementError::Lost(text) => {
                link.give_up(&session);
                return Err(RegisterError::Unknown(text));
            }
        }
    }
    Err(RegisterError::Unknown(format!("no answer in {ROUNDS_MAX} rounds")))
}

/// Writes those that have no answer yet, and finds an answer for each of them. Says when something was inserted.
async fn round(
    session: &Session,
    writes: &[Write<'_>],
    open: &[usize],
    answers: &mut [Option<WriteResult>],
    has_inserted: &mut bool,
) -> Result<(), Error> {
    let (client, statements) = (&session.client, &session.statements);
    let keys = Keys::of(writes, open);
    let values: Vec<&[u8]> = open.iter().map(|&place| writes[place].2).collect();
    let names: &[&(dyn ToSql + Sync)] = &[&keys.spaces, &keys.logs, &keys.slots];
    let whole: &[&(dyn ToSql + Sync)] = &[&keys.spaces, &keys.logs, &keys.slots, &values];
    // Sent together; the second begins when the first is committed.
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
        answers[place] = Some(WriteResult::Fresh);
    }
    for row in marked {
        answers[open[row.get::<_, i64>(0) as usize - 1]] = Some(WriteResult::Trimmed);
    }
    let left: Vec<usize> = open.iter().copied().filter(|&place| answers[place].is_none()).collect();
    if left.is_empty() {
        return Ok(());
    }
    let keys = Keys::of(writes, &left);
    let rows = client.query(&statements.values, &[&keys.spaces, &keys.logs, &keys.slots]).await?;
    for row in rows {
        let place = left[row.get::<_, i64>(0) as usize - 1];
        answers[place] = match row.get::<_, Option<&[u8]>>(2) {
            _ if row.get(1) => Some(WriteResult::Trimmed),
            Some(value) => Some(WriteResult::Taken(Bytes::copy_from_slice(value))),
            None => None,
        };
    }
    Ok(())
}

/// The names of registers, as the database takes them.
struct Keys {
    spaces: Vec<i16>,
    logs: Vec<Id>,
    slots: Vec<i64>,
}

impl Keys {
    fn of(writes: &[Write<'_>], places: &[usize]) -> Self {
        let names = || places.iter().map(|&place| (writes[place].0, writes[place].1));
        Self {
            spaces: names().map(|(log, _)| log.kind as i16).collect(),
            logs: names().map(|(log, _)| Id(log.id)).collect(),
            slots: names().map(|(_, slot)| slot.0 as i64).collect(),
        }
    }

    fn key(&self, index: usize) -> (i16, Id, i64) {
        (self.spaces[index], self.logs[index], self.slots[index])
    }
}
