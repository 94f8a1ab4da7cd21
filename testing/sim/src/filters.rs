//! Stores the filters: the steps of the engine's checkpoint thread, one at a time, interleaved with other
//! events.
//!
//! The order: ask each shard for its last decided slot, write the filters, wait until everything decided
//! meanwhile is durable, then commit the new version.

use jeton_core::Catalog;
use jeton_engine::internals::Message;
use jeton_engine::{CheckpointError, Checkpointer, FilterVersion, Slots};
use jeton_wal::disk::FaultDisk;
use tokio::sync::{mpsc, oneshot};

use crate::log::SimLog;
use crate::values::SimValues;

#[derive(Default)]
pub enum Filters {
    #[default]
    Idle,
    /// Waits for the decided slots of the shards.
    Marks(Replies),
    /// Written; waits until the slots decided meanwhile are durable.
    Durable(FilterVersion, Slots, Replies),
    Store(FilterVersion, Slots),
}

/// Slots requested from the shards, and those received.
pub struct Replies {
    open: Vec<oneshot::Receiver<Slots>>,
    slots: Slots,
}

impl Replies {
    /// Asks all shards; `None` if a queue is full.
    fn ask(senders: &[mpsc::Sender<Message>], durable: bool) -> Option<Self> {
        if senders.iter().any(|sender| sender.capacity() == 0) {
            return None;
        }
        let ask = |sender: &mpsc::Sender<Message>| {
            let (reply, slots) = oneshot::channel();
            sender.try_send(Message::Slots { durable, reply }).ok().map(|()| slots)
        };
        let open = senders.iter().map(ask).collect::<Option<Vec<_>>>()?;
        Some(Self { open, slots: Slots::new() })
    }

    /// Whether all shards have responded.
    fn complete(&mut self) -> bool {
        let slots = &mut self.slots;
        self.open.retain_mut(|reply| match reply.try_recv() {
            Ok(some) => {
                slots.extend(some);
                false
            }
            Err(_) => true,
        });
        self.open.is_empty()
    }
}

impl Filters {
    pub fn begun(&self) -> bool {
        !matches!(self, Self::Idle)
    }

    /// Takes the next step, if it is possible now.
    pub fn step(
        &mut self,
        senders: &[mpsc::Sender<Message>],
        catalog: &Catalog,
        checkpointer: &mut Checkpointer<SimLog, SimValues, FaultDisk>,
    ) -> Option<Result<&'static str, CheckpointError>> {
        let (next, done) = match std::mem::take(self) {
            Self::Idle => (Self::Marks(Replies::ask(senders, false)?), "filters: marks requested"),
            Self::Marks(mut replies) => {
                if !replies.complete() {
                    *self = Self::Marks(replies);
                    return None;
                }
                let version = match checkpointer.write_filters(catalog) {
                    Ok(version) => version,
                    Err(error) => return Some(Err(error)),
                };
                match Replies::ask(senders, true) {
                    Some(durable) => (Self::Durable(version, replies.slots, durable), "filters: written"),
                    None => (Self::Marks(replies), "filters: busy"),
                }
            }
            Self::Durable(version, slots, mut replies) => {
                if !replies.complete() {
                    *self = Self::Durable(version, slots, replies);
                    return None;
                }
                (Self::Store(version, slots), "filters: durable")
            }
            Self::Store(version, slots) => {
                if let Err(error) = checkpointer.commit_filters(version.clone(), &slots) {
                    *self = Self::Store(version, slots);
                    return Some(Err(error));
                }
                (Self::Idle, "filters: stored")
            }
        };
        *self = next;
        Some(Ok(done))
    }
}
