//! An outbox stores operations with their ids on disk before it sends them, so that they survive a crash of
//! the client.
//!
//! Invariants:
//! - *A stored operation is delivered*, by this process or a later one, always with the same id; or it stays
//!   in the list of undelivered operations until the program forgets it.
//! - *Nothing is sent that is not on disk.*
//! - *One process at a time uses an outbox.* Its size is limited.
//!
//! Operations are delivered concurrently, without an order between them.

mod file;
mod record;
mod state;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jeton_core::ErrorCode;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use self::file::{OpenError, OutboxFile};
use self::writer::{PendingDelivery, ResultSender, Shared, Writer, WriterCommand};
use crate::client::Client;
use crate::command::Write;
use crate::error::Error;
use crate::id::Id;
use crate::outcome::{self, ManyOutcome};

/// Wait between deliveries of one operation while the servers are down or an operator must fix them.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Limits of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Stored operations.
    pub operations: usize,
    /// Bytes of the stored operations on disk.
    pub bytes: usize,
    /// Operations in flight.
    pub in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: 100_000, bytes: 64 << 20, in_flight: 64 }
    }
}

/// Why an outbox cannot be opened, or does not store an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// Another process has it open.
    #[error("the outbox {} is open in another process", .0.display())]
    Locked(PathBuf),
    /// The file was not written by an outbox.
    #[error("{} contains a file named outbox that is not one", .0.display())]
    Foreign(PathBuf),
    /// The operating system reported an error.
    #[error("{action}: {reason}")]
    System {
        /// What the outbox tried to do.
        action: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A limit is reached. Nothing was stored.
    #[error("the outbox is full: it stores {} operations or {} bytes", .0.operations, .0.bytes)]
    Full(Limits),
    /// A write failed. Whether the operation is stored is unknown; if it is, the outbox delivers it after it
    /// is opened again.
    #[error("the outbox is broken, and must be opened again: {0}")]
    Broken(String),
    /// The operation or its id is invalid. Nothing was stored.
    #[error("{0}")]
    Invalid(String),
    /// The outbox is closed. Nothing was stored.
    #[error("the outbox is closed")]
    Closed,
}

/// An operation that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}, id {id}: {reason}")]
pub struct Undelivered {
    /// Id of the operation.
    pub id: Id,
    /// Description of the operation.
    pub operation: String,
    /// The server's error.
    pub reason: String,
    /// Whether the id is older than the window: then the operation may have been counted.
    pub expired: bool,
}

/// An operation that is stored on disk.
#[derive(Debug)]
pub struct Receipt {
    /// The id of the operation.
    pub id: Id,
    delivered: oneshot::Receiver<Result<ManyOutcome, Undelivered>>,
}

impl Receipt {
    /// Waits until the operation is delivered. Returns `None` if the outbox is closed before: then the next
    /// process that opens it delivers the operation.
    pub async fn delivered(self) -> Option<Result<ManyOutcome, Undelivered>> {
        self.delivered.await.ok()
    }
}

/// A durable queue of operations. [Close](Outbox::close) it before opening it again; otherwise it may be
/// dropped.
pub struct Outbox {
    client: Client,
    commands: Option<mpsc::Sender<WriterCommand>>,
    shared: Arc<Shared>,
    delivery_task: tokio::task::JoinHandle<()>,
    writer_thread: Option<JoinHandle<()>>,
}

impl Outbox {
    /// Opens or creates the outbox in a directory, and starts to deliver its operations with this client.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn open(folder: impl AsRef<Path>, client: Client) -> Result<Self, OutboxError> {
        Self::open_with(folder, client, Limits::default()).await
    }

    /// Like [`open`](Self::open), with other limits.
    pub async fn open_with(
        folder: impl AsRef<Path>,
        client: Client,
        limits: Limits,
    ) -> Result<Self, OutboxError> {
        let folder = folder.as_ref().to_path_buf();
        let system = |action: &str, reason: String| OutboxError::System { action: action.into(), reason };
        let open = {
            let folder = folder.clone();
            tokio::task::spawn_blocking(move || OutboxFile::open(&folder))
        };
        let opened = open.await.map_err(|error| system("opening the outbox", error.to_string()))?;
        let (file, state) = opened.map_err(|error| match error {
            OpenError::Locked => OutboxError::Locked(folder),
            OpenError::Foreign => OutboxError::Foreign(folder),
            OpenError::Io(error) => {
                system(&format!("opening the outbox {}", folder.display()), error.to_string())
            }
        })?;
        let (commands, incoming) = mpsc::channel(1024);
        let (deliveries, outgoing) = mpsc::unbounded_channel();
        for (number, pending) in state.pending.iter().filter(|(_, pending)| pending.undeliverable.is_none()) {
            let (id, write) = (pending.id.clone(), pending.write.clone());
            let delivery = PendingDelivery { number: *number, id, write, result: None };
            deliveries.send(delivery).expect("the receiver is dropped later");
        }
        let shared = Arc::new(Shared::new(state));
        let writer =
            Writer { file, shared: shared.clone(), commands: incoming, deliveries, limits, broken: None };
        let writer_thread = std::thread::Builder::new()
            .name("jeton-outbox".into())
            .spawn(move || writer.run())
            .map_err(|error| system("starting a thread", error.to_string()))?;
        let delivery_task =
            tokio::spawn(deliver_all(client.clone(), outgoing, commands.clone(), limits.in_flight));
        let (commands, writer_thread) = (Some(commands), Some(writer_thread));
        Ok(Self { client, commands, shared, delivery_task, writer_thread })
    }

    /// An addition to a counter.
    pub fn add(&self, key: impl AsRef<[u8]>, delta: i64) -> OutboxEntry<'_> {
        self.entry(Write::add(key, delta))
    }

    /// An addition to several counters with the same hash tag, all or none.
    pub fn add_many<K: AsRef<[u8]>>(&self, changes: impl IntoIterator<Item = (K, i64)>) -> OutboxEntry<'_> {
        self.entry(Write::add_many(changes))
    }

    /// Sets a counter, or stores bytes.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl ToString) -> OutboxEntry<'_> {
        self.entry(Write::set(key, value.to_string()))
    }

    /// Sets a counter to zero.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> OutboxEntry<'_> {
        self.entry(Write::Reset { key: key.as_ref().into() })
    }

    /// Deletes a counter, or bytes.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> OutboxEntry<'_> {
        self.entry(Write::Delete { key: key.as_ref().into() })
    }

    fn entry(&self, write: Write) -> OutboxEntry<'_> {
        OutboxEntry { outbox: self, id: None, write }
    }

    /// Number of operations that are not delivered yet.
    pub fn pending(&self) -> usize {
        *self.shared.pending.borrow()
    }

    /// Waits until no operation is pending. Operations that failed are in [`undelivered`](Self::undelivered).
    pub async fn flush(&self) {
        let mut pending = self.shared.pending.subscribe();
        let _sender_is_alive = pending.wait_for(|pending| *pending == 0).await;
    }

    /// Operations that could not be delivered, oldest first. They stay in the outbox until the program
    /// [forgets](Self::forget) them.
    pub fn undelivered(&self) -> Vec<Undelivered> {
        let state = self.shared.state();
        let failed =
            state.pending.values().filter_map(|pending| Some((pending, pending.undeliverable.as_ref()?)));
        failed
            .map(|(pending, (expired, reason))| undelivered(&pending.id, &pending.write, *expired, reason))
            .collect()
    }

    /// Removes an operation from the list of undelivered ones. Returns false if it is not in the list.
    pub async fn forget(&self, id: &Id) -> bool {
        let found = {
            let state = self.shared.state();
            let mut all = state.pending.iter();
            all.find(|(_, pending)| pending.undeliverable.is_some() && pending.id == *id)
                .map(|(number, _)| *number)
        };
        let (Some(number), Some(commands)) = (found, &self.commands) else { return false };
        let (written, is_written) = oneshot::channel();
        commands.send(WriterCommand::Remove { number, written: Some(written) }).await.is_ok()
            && is_written.await.is_ok()
    }

    /// Closes the outbox; when this returns, it can be opened again. The next process delivers the pending
    /// operations.
    pub async fn close(mut self) {
        self.delivery_task.abort();
        let _aborted = (&mut self.delivery_task).await;
        drop(self.commands.take());
        if let Some(thread) = self.writer_thread.take() {
            let _joined = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.delivery_task.abort();
        // The writer thread ends when all senders are dropped. Deliveries hold one until they are aborted;
        // waiting for them here could deadlock on the thread that runs them.
        drop(self.commands.take());
        drop(self.writer_thread.take());
    }
}

/// An operation for the outbox; [`store`](Self::store) stores it.
#[must_use = "the operation is stored by awaiting `store`"]
pub struct OutboxEntry<'a> {
    outbox: &'a Outbox,
    id: Option<Id>,
    write: Write,
}

impl OutboxEntry<'_> {
    /// Uses this id instead of a new one. An outbox accepts only UUIDs of version 7: an id without a time
    /// that is sent late might count twice.
    pub fn id(mut self, id: Id) -> Self {
        self.id = Some(id);
        self
    }

    /// Refuses the addition if the counter would fall below this bound. Ignored except for additions to one
    /// counter.
    pub fn min(mut self, bound: i64) -> Self {
        self.write.set_min(bound);
        self
    }

    /// Refuses the addition if the counter would rise above this bound. Ignored except for additions to one
    /// counter.
    pub fn max(mut self, bound: i64) -> Self {
        self.write.set_max(bound);
        self
    }

    /// Stores the operation. When this returns, it is on disk and will be delivered.
    pub async fn store(self) -> Result<Receipt, OutboxError> {
        let Self { outbox, id, write } = self;
        write.check().map_err(|error| OutboxError::Invalid(error.to_string()))?;
        let id = id.unwrap_or_else(|| outbox.client.new_id());
        if id.millis().is_none() {
            return Err(OutboxError::Invalid(format!(
                "an outbox accepts only UUIDs of version 7: {id} has no time, and might count twice if sent late"
            )));
        }
        let ((result, delivered), (stored, is_stored)) = (oneshot::channel(), oneshot::channel());
        let command = WriterCommand::Store { id: id.clone(), write, result, stored };
        let commands = outbox.commands.as_ref().ok_or(OutboxError::Closed)?;
        commands.send(command).await.map_err(|_| OutboxError::Closed)?;
        is_stored.await.map_err(|_| OutboxError::Closed)??;
        Ok(Receipt { id, delivered })
    }
}

/// Delivers queued operations, at most `in_flight_max` at a time, until it is aborted.
async fn deliver_all(
    client: Client,
    mut queue: mpsc::UnboundedReceiver<PendingDelivery>,
    commands: mpsc::Sender<WriterCommand>,
    in_flight_max: usize,
) {
    let slots = Arc::new(Semaphore::new(in_flight_max.max(1)));
    let mut deliveries = JoinSet::new();
    while let Some(delivery) = queue.recv().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while deliveries.try_join_next().is_some() {}
        let (client, commands) = (client.clone(), commands.clone());
        deliveries.spawn(async move {
            deliver(&client, delivery, &commands).await;
            drop(slot);
        });
    }
}

/// Delivers an operation, without a deadline.
async fn deliver(client: &Client, delivery: PendingDelivery, commands: &mpsc::Sender<WriterCommand>) {
    let PendingDelivery { number, id, write, result: sender } = delivery;
    let command = write.command(&id);
    let respond = |sender: Option<ResultSender>, result| sender.map(|sender| sender.send(result));
    loop {
        let reply = client.send_with_retries(command.clone(), None).await;
        let error = match reply.and_then(|value| Ok(outcome::any(&value, id.clone())?)) {
            Ok(outcome) => {
                let _closing = commands.send(WriterCommand::Remove { number, written: None }).await;
                let _not_awaited = respond(sender, Ok(outcome));
                return;
            }
            Err(exhausted) => exhausted.of_write(id.clone()),
        };
        if is_permanent(&error) {
            let expired = matches!(error, Error::Expired { .. });
            let reason = error.to_string();
            let _not_awaited = respond(sender, Err(undelivered(&id, &write, expired, &reason)));
            let (written, is_written) = oneshot::channel();
            let failed = WriterCommand::Fail { number, expired, reason, written };
            let _closing = commands.send(failed).await;
            let _closing = is_written.await;
            return;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Whether neither a retry nor an operator can make the delivery succeed.
fn is_permanent(error: &Error) -> bool {
    match error {
        Error::Expired { .. } => true,
        Error::Refused(error) => {
            let is_correctable =
                matches!(error.code, Some(ErrorCode::UnknownTable | ErrorCode::IdFromFuture));
            !is_correctable && !error.concerns_the_token()
        }
        _ => false,
    }
}

fn undelivered(id: &Id, write: &Write, expired: bool, reason: &str) -> Undelivered {
    Undelivered { id: id.clone(), operation: write.to_string(), reason: reason.into(), expired }
}
