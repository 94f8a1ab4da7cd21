//! The thread that writes the outbox file. Commands that arrive during a sync are written together and synced
//! once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};

use super::file::{OutboxFile, append};
use super::record::Record;
use super::state::State;
use super::{Limits, OutboxError, Undelivered};
use crate::command::Write;
use crate::id::Id;
use crate::outcome::ManyOutcome;

/// Most commands that are written together.
const BATCH_MAX: usize = 1024;

/// Receives the result of an operation's delivery.
pub(super) type ResultSender = oneshot::Sender<Result<ManyOutcome, Undelivered>>;

/// An operation to deliver.
pub(super) struct PendingDelivery {
    pub number: u64,
    pub id: Id,
    pub write: Write,
    /// `None` for operations of an earlier process.
    pub result: Option<ResultSender>,
}

/// A change to write.
pub(super) enum WriterCommand {
    /// Store an operation, confirm it once it is on disk, and deliver it.
    Store { id: Id, write: Write, result: ResultSender, stored: oneshot::Sender<Result<(), OutboxError>> },
    /// The operation was delivered, or the program has forgotten it.
    Remove { number: u64, written: Option<oneshot::Sender<()>> },
    /// The operation cannot be delivered.
    Fail { number: u64, expired: bool, reason: String, written: oneshot::Sender<()> },
}

/// Shared by the writer thread and the outbox.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Number of operations that are not delivered yet.
    pub pending: watch::Sender<usize>,
}

impl Shared {
    pub fn new(state: State) -> Self {
        let pending = watch::Sender::new(pending(&state));
        Self { state: Mutex::new(state), pending }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pending(state: &State) -> usize {
    state.pending.values().filter(|pending| pending.undeliverable.is_none()).count()
}

pub(super) struct Writer {
    pub file: OutboxFile,
    pub shared: Arc<Shared>,
    pub commands: mpsc::Receiver<WriterCommand>,
    pub deliveries: mpsc::UnboundedSender<PendingDelivery>,
    pub limits: Limits,
    /// The error of a failed write. Nothing is written after it: recovery stops at an incomplete record.
    pub broken: Option<String>,
}

impl Writer {
    /// Runs until all senders of commands are dropped.
    pub fn run(mut self) {
        while let Some(first) = self.commands.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX
                && let Ok(command) = self.commands.try_recv()
            {
                batch.push(command);
            }
            self.write(batch);
        }
    }

    fn write(&mut self, batch: Vec<WriterCommand>) {
        let (mut bytes, mut stores, mut confirmations) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = self.shared.state();
        let mut sync = false;
        for command in batch {
            match command {
                WriterCommand::Store { id, write, result, stored } => {
                    if let Some(reason) = &self.broken {
                        let _not_awaited = stored.send(Err(OutboxError::Broken(reason.clone())));
                        continue;
                    }
                    if state.pending.len() >= self.limits.operations || state.bytes >= self.limits.bytes {
                        let _not_awaited = stored.send(Err(OutboxError::Full(self.limits)));
                        continue;
                    }
                    let number = state.next;
                    let record = Record::Stored { number, id: id.clone(), write: write.clone() };
                    append(&record, &mut state, &mut bytes);
                    stores.push((PendingDelivery { number, id, write, result: Some(result) }, stored));
                    sync = true;
                }
                // Not synced: if the record is lost, the operation is sent again and counts once.
                WriterCommand::Remove { number, written } => {
                    append(&Record::Removed { number }, &mut state, &mut bytes);
                    confirmations.extend(written);
                }
                WriterCommand::Fail { number, expired, reason, written } => {
                    append(&Record::Failed { number, expired, reason }, &mut state, &mut bytes);
                    confirmations.push(written);
                    sync = true;
                }
            }
        }
        drop(state);
        if self.broken.is_none() {
            let written = self.file.append(&bytes, sync).and_then(|()| {
                let state = self.shared.state();
                self.file.compact_if_worthwhile(&state)
            });
            self.broken = written.err().map(|error| error.to_string());
        }
        if self.broken.is_some() {
            // The operations may be in the file; then they are delivered after the outbox is opened again.
            let mut state = self.shared.state();
            for (delivery, _) in &stores {
                state.apply(&Record::Removed { number: delivery.number }, 0);
            }
        }
        // Before the confirmations: a caller that then waits in `flush` must see its operation as pending.
        let pending = pending(&self.shared.state());
        self.shared.pending.send_replace(pending);
        for (delivery, stored) in stores {
            match &self.broken {
                None => {
                    let _not_awaited = stored.send(Ok(()));
                    let _closing = self.deliveries.send(delivery);
                }
                Some(reason) => {
                    let _not_awaited = stored.send(Err(OutboxError::Broken(reason.clone())));
                }
            }
        }
        for written in confirmations {
            let _not_awaited = written.send(());
        }
    }
}
