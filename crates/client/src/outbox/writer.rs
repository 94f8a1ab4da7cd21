//! The thread that writes the file of an outbox: what came while it synced is written together and synced once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};

use super::file::{OutboxFile, note};
use super::record::Record;
use super::state::State;
use super::{Limits, OutboxError, Undelivered};
use crate::command::Write;
use crate::id::Id;
use crate::outcome::ManyOutcome;

/// Orders that are written together, at most.
const BATCH_MAX: usize = 1024;

/// Who is told what became of an operation.
pub(super) type ResultSender = oneshot::Sender<Result<ManyOutcome, Undelivered>>;

/// An operation that is to be delivered.
pub(super) struct PendingDelivery {
    pub number: u64,
    pub id: Id,
    pub write: Write,
    pub teller: Option<ResultSender>,
}

/// What is to be written.
pub(super) enum WriterCommand {
    /// Keep this, tell when it is safe, and see to its delivery.
    Keep { id: Id, write: Write, teller: ResultSender, kept: oneshot::Sender<Result<(), OutboxError>> },
    /// It was delivered, or its owner has taken note that it cannot be.
    Over { number: u64, noted: Option<oneshot::Sender<()>> },
    /// It cannot be delivered.
    Stuck { number: u64, expired: bool, why: String, noted: oneshot::Sender<()> },
}

/// What the thread and the outbox share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// How many operations are still to be delivered.
    pub pending: watch::Sender<usize>,
}

impl Shared {
    pub fn new(state: State) -> Self {
        let pending = watch::Sender::new(pending(&state));
        Self { state: Mutex::new(state), pending }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half changed in there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pending(state: &State) -> usize {
    state.kept.values().filter(|kept| kept.stuck.is_none()).count()
}

pub(super) struct Writer {
    pub file: OutboxFile,
    pub shared: Arc<Shared>,
    pub orders: mpsc::Receiver<WriterCommand>,
    pub parcels: mpsc::UnboundedSender<PendingDelivery>,
    pub limits: Limits,
    /// What the disk said. After that nothing is written any more: what follows half a record would not be read again.
    pub broken: Option<String>,
}

impl Writer {
    /// Writes until nobody has orders any more.
    pub fn run(mut self) {
        while let Some(first) = self.orders.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX
                && let Ok(order) = self.orders.try_recv()
            {
                batch.push(order);
            }
            self.write(batch);
        }
    }

    fn write(&mut self, batch: Vec<WriterCommand>) {
        let (mut bytes, mut kept, mut noted) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = self.shared.state();
        let mut sync = false;
        for order in batch {
            match order {
                WriterCommand::Keep { id, write, teller, kept: tell } => {
                    if let Some(why) = &self.broken {
                        let _gone = tell.send(Err(OutboxError::Broken(why.clone())));
                        continue;
                    }
                    if state.kept.len() >= self.limits.operations || state.bytes >= self.limits.bytes {
                        let _gone = tell.send(Err(OutboxError::Full(self.limits)));
                        continue;
                    }
                    let number = state.next;
                    let record = Record::Came { number, id: id.clone(), write: write.clone() };
                    note(&record, &mut state, &mut bytes);
                    kept.push((PendingDelivery { number, id, write, teller: Some(teller) }, tell));
                    sync = true;
                }
                // Not worth a sync: if it is lost, the operation is sent once more, and counts once.
                WriterCommand::Over { number, noted: tell } => {
                    note(&Record::Over { number }, &mut state, &mut bytes);
                    noted.extend(tell);
                }
                WriterCommand::Stuck { number, expired, why, noted: tell } => {
                    note(&Record::Stuck { number, expired, why }, &mut state, &mut bytes);
                    noted.push(tell);
                    sync = true;
                }
            }
        }
        drop(state);
        if self.broken.is_none() {
            let written = self.file.append(&bytes, sync).and_then(|()| {
                let state = self.shared.state();
                self.file.rewrite_if_worthwhile(&state)
            });
            self.broken = written.err().map(|error| error.to_string());
        }
        if self.broken.is_some() {
            // It may be in the file, and be delivered when that is read again; not before.
            let mut state = self.shared.state();
            kept.iter().for_each(|(parcel, _)| state.apply(&Record::Over { number: parcel.number }, 0));
        }
        // Before anybody is told: whoever waits for what was just taken must find it.
        let pending = pending(&self.shared.state());
        self.shared.pending.send_replace(pending);
        for (parcel, tell) in kept {
            match &self.broken {
                None => {
                    let _gone = tell.send(Ok(()));
                    let _closing = self.parcels.send(parcel);
                }
                Some(why) => {
                    let _gone = tell.send(Err(OutboxError::Broken(why.clone())));
                }
            }
        }
        for tell in noted {
            let _gone = tell.send(());
        }
    }
}
