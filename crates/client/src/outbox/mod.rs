//! An outbox: operations are on disk, each with its id, before they are sent, so that they survive the crash of the client itself.
//!
//! What must hold:
//! - *An operation that was taken is delivered*, by this process or a later one, always with the id that it was taken with; or it is
//!   in the list of what could not be delivered, until its owner takes it from there.
//! - *Nothing is sent that is not on disk.*
//! - *One process at a time has an outbox.* It has a limit, and beyond it takes nothing more.
//!
//! Operations are delivered side by side: between two of them there is no order.

mod file;
mod record;
mod state;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use self::file::{OpenFailure, OutboxFile};
use self::writer::{PendingDelivery, ResultSender, Shared, Writer, WriterCommand};
use crate::client::{Client, RetriesExhausted};
use crate::command::Write;
use crate::error::{Code, Error};
use crate::id::Id;
use crate::outcome::{self, ManyOutcome};

/// How long an operation waits after a failure that will take a person to mend, or a server to come back.
const PAUSE: Duration = Duration::from_millis(500);

/// How much an outbox may hold, and how much of it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Operations that are not delivered.
    pub operations: usize,
    /// Their bytes on disk.
    pub bytes: usize,
    /// Operations that are sent at the same time.
    pub under_way: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: 100_000, bytes: 64 << 20, under_way: 64 }
    }
}

/// Why an outbox cannot be opened, or does not take an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// Another process has it open.
    #[error("the outbox {} is open in another process", .0.display())]
    Locked(PathBuf),
    /// The file is not of an outbox.
    #[error("{} has a file named outbox that is none", .0.display())]
    Foreign(PathBuf),
    /// The operating system said no.
    #[error("{what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        why: String,
    },
    /// It holds as much as it may. Nothing was taken.
    #[error("the outbox is full: it holds {} operations or {} bytes that are not delivered", .0.operations, .0.bytes)]
    Full(Limits),
    /// The disk failed. Whether the operation is in the file is not known; if it is, it is delivered when the outbox is opened again.
    #[error("the outbox is broken, and must be opened again: {0}")]
    Broken(String),
    /// The outbox does not take this. Nothing was taken.
    #[error("{0}")]
    Invalid(String),
    /// It is closed. Nothing was taken.
    #[error("the outbox is closed")]
    Closed,
}

/// An operation that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, id {id}: {why}")]
pub struct Undelivered {
    /// Its id.
    pub id: Id,
    /// What it was.
    pub what: String,
    /// What the server said.
    pub why: String,
    /// Whether it is too old: then it may have been counted, or not.
    pub expired: bool,
}

/// An operation that was taken: it is on disk.
#[derive(Debug)]
pub struct Receipt {
    /// The id that it was taken with.
    pub id: Id,
    delivered: oneshot::Receiver<Result<ManyOutcome, Undelivered>>,
}

impl Receipt {
    /// Waits until it is delivered. Nothing if the outbox is closed before: then a later one delivers it.
    pub async fn delivered(self) -> Option<Result<ManyOutcome, Undelivered>> {
        self.delivered.await.ok()
    }
}

/// Operations on disk, on their way to a server. Whoever opens it again at once [closes](Outbox::close) it; whoever does not, may drop it.
pub struct Outbox {
    client: Client,
    orders: Option<mpsc::Sender<WriterCommand>>,
    shared: Arc<Shared>,
    delivering: tokio::task::JoinHandle<()>,
    writing: Option<JoinHandle<()>>,
}

impl Outbox {
    /// Opens the outbox in a folder, or makes one, and begins to deliver what it holds over this client.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn open(folder: impl AsRef<Path>, client: Client) -> Result<Self, OutboxError> {
        Self::open_with(folder, client, Limits::default()).await
    }

    /// As [`open`](Self::open), with other limits.
    pub async fn open_with(
        folder: impl AsRef<Path>,
        client: Client,
        limits: Limits,
    ) -> Result<Self, OutboxError> {
        let folder = folder.as_ref().to_path_buf();
        let system = |what: &str, why: String| OutboxError::System { what: what.into(), why };
        let opening = {
            let folder = folder.clone();
            tokio::task::spawn_blocking(move || OutboxFile::open(&folder))
        };
        let opened = opening.await.map_err(|error| system("opening the outbox", error.to_string()))?;
        let (file, state) = opened.map_err(|failure| match failure {
            OpenFailure::Locked => OutboxError::Locked(folder),
            OpenFailure::Foreign => OutboxError::Foreign(folder),
            OpenFailure::Io(error) => {
                system(&format!("opening the outbox {}", folder.display()), error.to_string())
            }
        })?;
        let (orders, incoming) = mpsc::channel(1024);
        let (parcels, outgoing) = mpsc::unbounded_channel();
        for (number, kept) in state.kept.iter().filter(|(_, kept)| kept.stuck.is_none()) {
            let (id, write) = (kept.id.clone(), kept.write.clone());
            let _held_below = parcels.send(PendingDelivery { number: *number, id, write, teller: None });
        }
        let shared = Arc::new(Shared::new(state));
        let writer = Writer { file, shared: shared.clone(), orders: incoming, parcels, limits, broken: None };
        let writing = std::thread::Builder::new()
            .name("jeton-outbox".into())
            .spawn(move || writer.run())
            .map_err(|error| system("starting a thread", error.to_string()))?;
        let delivering =
            tokio::spawn(deliver_all(client.clone(), outgoing, orders.clone(), limits.under_way));
        Ok(Self { client, orders: Some(orders), shared, delivering, writing: Some(writing) })
    }

    /// Takes an addition to a counter.
    pub fn add(&self, key: impl AsRef<[u8]>, delta: i64) -> OutboxEntry<'_> {
        OutboxEntry {
            outbox: self,
            id: None,
            write: Write::Add { key: key.as_ref().into(), delta, min: None, max: None },
        }
    }

    /// Takes an addition to several counters of one partition, all or none.
    pub fn add_many<K: AsRef<[u8]>>(&self, changes: impl IntoIterator<Item = (K, i64)>) -> OutboxEntry<'_> {
        let changes = changes.into_iter().map(|(key, delta)| (key.as_ref().into(), delta)).collect();
        OutboxEntry { outbox: self, id: None, write: Write::AddMany { changes } }
    }

    /// Takes the setting of a counter, or bytes to be put.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl ToString) -> OutboxEntry<'_> {
        let (key, value) = (key.as_ref().into(), value.to_string().into());
        OutboxEntry { outbox: self, id: None, write: Write::Set { key, value } }
    }

    /// Takes a reset of a counter.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> OutboxEntry<'_> {
        OutboxEntry { outbox: self, id: None, write: Write::Reset { key: key.as_ref().into() } }
    }

    /// Takes a deletion.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> OutboxEntry<'_> {
        OutboxEntry { outbox: self, id: None, write: Write::Delete { key: key.as_ref().into() } }
    }

    /// How many operations are still to be delivered.
    pub fn pending(&self) -> usize {
        *self.shared.pending.borrow()
    }

    /// Waits until nothing is to be delivered any more. What cannot be, is in [`undelivered`](Self::undelivered).
    pub async fn flush(&self) {
        let mut pending = self.shared.pending.subscribe();
        let _never_gone = pending.wait_for(|pending| *pending == 0).await;
    }

    /// What could not be delivered, the oldest first. It stays in the outbox until it is [forgotten](Self::forget).
    pub fn undelivered(&self) -> Vec<Undelivered> {
        let state = self.shared.state();
        let stuck = state.kept.values().filter_map(|kept| Some((kept, kept.stuck.as_ref()?)));
        stuck.map(|(kept, (expired, why))| undelivered(&kept.id, &kept.write, *expired, why)).collect()
    }

    /// Takes note that this operation could not be delivered. False if it is not in the list.
    pub async fn forget(&self, id: &Id) -> bool {
        let found = {
            let state = self.shared.state();
            let mut all = state.kept.iter();
            all.find(|(_, kept)| kept.stuck.is_some() && kept.id == *id).map(|(number, _)| *number)
        };
        let (Some(number), Some(orders)) = (found, &self.orders) else { return false };
        let (noted, is_noted) = oneshot::channel();
        orders.send(WriterCommand::Over { number, noted: Some(noted) }).await.is_ok()
            && is_noted.await.is_ok()
    }

    /// Closes it, and comes back when it can be opened again. What is not delivered is delivered by the next.
    pub async fn close(mut self) {
        self.delivering.abort();
        let _aborted = (&mut self.delivering).await;
        drop(self.orders.take());
        if let Some(writing) = self.writing.take() {
            let _joined = tokio::task::spawn_blocking(|| writing.join()).await;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.delivering.abort();
        // Its thread ends when nobody has orders any more. Some deliveries may hold on for a moment, until they notice that they are
        // aborted; they are not waited for, because that could be for ever on the thread that runs them.
        drop(self.orders.take());
        drop(self.writing.take());
    }
}

/// An operation to be taken. Await [`keep`](Self::keep).
#[must_use = "an operation is taken by awaiting `keep`"]
pub struct OutboxEntry<'a> {
    outbox: &'a Outbox,
    id: Option<Id>,
    write: Write,
}

impl OutboxEntry<'_> {
    /// The id, instead of a new one. An outbox takes only UUIDs of version 7: an id without a time, sent late, might count twice.
    pub fn id(mut self, id: Id) -> Self {
        self.id = Some(id);
        self
    }

    /// Refuse it if the counter would fall below this. Additions to one counter have bounds, and nothing else.
    pub fn min(mut self, bound: i64) -> Self {
        if let Write::Add { min, .. } = &mut self.write {
            *min = Some(bound);
        }
        self
    }

    /// Refuse it if the counter would rise above this. Additions to one counter have bounds, and nothing else.
    pub fn max(mut self, bound: i64) -> Self {
        if let Write::Add { max, .. } = &mut self.write {
            *max = Some(bound);
        }
        self
    }

    /// Takes it. When this returns, it is on disk, and will be delivered.
    pub async fn keep(self) -> Result<Receipt, OutboxError> {
        let Self { outbox, id, write } = self;
        write.check().map_err(|error| OutboxError::Invalid(error.to_string()))?;
        let id = id.unwrap_or_else(|| outbox.client.mint());
        if id.millis().is_none() {
            return Err(OutboxError::Invalid(format!(
                "an outbox takes only UUIDs of version 7: {id} carries no time, and sent late might count twice"
            )));
        }
        let ((teller, delivered), (kept, is_kept)) = (oneshot::channel(), oneshot::channel());
        let order = WriterCommand::Keep { id: id.clone(), write, teller, kept };
        let orders = outbox.orders.as_ref().ok_or(OutboxError::Closed)?;
        orders.send(order).await.map_err(|_| OutboxError::Closed)?;
        is_kept.await.map_err(|_| OutboxError::Closed)??;
        Ok(Receipt { id, delivered })
    }
}

/// Delivers what comes, so many side by side, until it is aborted.
async fn deliver_all(
    client: Client,
    mut parcels: mpsc::UnboundedReceiver<PendingDelivery>,
    orders: mpsc::Sender<WriterCommand>,
    under_way: usize,
) {
    let room = Arc::new(Semaphore::new(under_way.max(1)));
    let mut deliveries = JoinSet::new();
    while let Some(parcel) = parcels.recv().await {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        while deliveries.try_join_next().is_some() {}
        let (client, orders) = (client.clone(), orders.clone());
        deliveries.spawn(async move {
            deliver(&client, parcel, &orders).await;
            drop(place);
        });
    }
}

/// Delivers an operation, however long it takes.
async fn deliver(client: &Client, parcel: PendingDelivery, orders: &mpsc::Sender<WriterCommand>) {
    let PendingDelivery { number, id, write, teller } = parcel;
    let command = write.command(&id);
    let tell = |teller: Option<ResultSender>, told| teller.map(|teller| teller.send(told));
    loop {
        let error = match client.send_with_retries(command.clone(), None).await {
            Ok(value) => match outcome::any(&value, id.clone()) {
                Ok(outcome) => {
                    let _closing = orders.send(WriterCommand::Over { number, noted: None }).await;
                    let _nobody_asks = tell(teller, Ok(outcome));
                    return;
                }
                Err(no) => RetriesExhausted::nonsense(no.0).of_write(id.clone()),
            },
            Err(stuck) => stuck.of_write(id.clone()),
        };
        if is_hopeless(&error) {
            let expired = matches!(error, Error::Expired { .. });
            let why = error.to_string();
            let _nobody_asks = tell(teller, Err(undelivered(&id, &write, expired, &why)));
            let (noted, is_noted) = oneshot::channel();
            let _closing = orders.send(WriterCommand::Stuck { number, expired, why, noted }).await;
            let _closing = is_noted.await;
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether time will not mend it, nor a person who sees to the server.
fn is_hopeless(error: &Error) -> bool {
    match error {
        Error::Expired { .. } => true,
        Error::Refused(said) => !matches!(
            said.code,
            Code::NoAuth | Code::WrongPass | Code::NoPermission | Code::NoTable | Code::IdFuture
        ),
        _ => false,
    }
}

fn undelivered(id: &Id, write: &Write, expired: bool, why: &str) -> Undelivered {
    Undelivered { id: id.clone(), what: write.to_string(), why: why.into(), expired }
}
