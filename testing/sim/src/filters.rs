//! How the filters are stored: the steps of the engine's store thread, one at a time, so that everything else happens in between.
//!
//! The order is what matters: the slots that every shard has decided, then the writing, then the wait until all that was decided
//! meanwhile is durable, then the row that makes it count.

use jeton_core::Catalog;
use jeton_engine::internals::Message;
use jeton_engine::{CheckpointError, Checkpointer, FilterVersion, Slots};
use jeton_wal::disk::FaultDisk;
use tokio::sync::{mpsc, oneshot};

use crate::log::SimLog;
use crate::values::SimValues;

/// How far the storing of the filters has come.
#[derive(Default)]
pub enum Filters {
    /// Not begun.
    #[default]
    Idle,
    /// The shards were asked for the slots that they have decided.
    Marks(Replies),
    /// They are written, and the shards were asked to say when what they had decided is durable.
    Durable(FilterVersion, Slots, Replies),
    /// To be made to count.
    Store(FilterVersion, Slots),
}

/// Slots that shards were asked for, and those that have come.
pub struct Replies {
    open: Vec<oneshot::Receiver<Slots>>,
    slots: Slots,
}

impl Replies {
    /// Asks all shards; nothing if the queue of one is full.
    fn ask(doors: &[mpsc::Sender<Message>], durable: bool) -> Option<Self> {
        if doors.iter().any(|door| door.capacity() == 0) {
            return None;
        }
        let ask = |door: &mpsc::Sender<Message>| {
            let (reply, slots) = oneshot::channel();
            door.try_send(Message::Slots { durable, reply }).ok().map(|()| slots)
        };
        let open = doors.iter().map(ask).collect::<Option<Vec<_>>>()?;
        Some(Self { open, slots: Slots::new() })
    }

    /// Whether all have come.
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
    /// Whether it has begun and is not done.
    pub fn begun(&self) -> bool {
        !matches!(self, Self::Idle)
    }

    /// Goes one step further, if that is possible now.
    pub fn step(
        &mut self,
        doors: &[mpsc::Sender<Message>],
        catalog: &Catalog,
        checkpointer: &mut Checkpointer<SimLog, SimValues, FaultDisk>,
    ) -> Option<Result<&'static str, CheckpointError>> {
        let (next, done) = match std::mem::take(self) {
            Self::Idle => (Self::Marks(Replies::ask(doors, false)?), "filters: marks asked for"),
            Self::Marks(mut replies) => {
                if !replies.complete() {
                    *self = Self::Marks(replies);
                    return None;
                }
                let version = match checkpointer.write_filters(catalog) {
                    Ok(version) => version,
                    Err(error) => return Some(Err(error)),
                };
                match Replies::ask(doors, true) {
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
