//! How the filters are stored: the steps of the engine's store thread, one at a time, so that everything else happens in between.
//!
//! The order is what matters: the slots that every shard has decided, then the snapshot, then the wait until all that was decided
//! meanwhile is durable, then the row.

use jeton_core::Catalog;
use jeton_engine::parts::Message;
use jeton_engine::{FilterSnapshot, KeepError, Keeper, Slots, snapshot_filters};
use jeton_register::disk::FaultDisk;
use tokio::sync::{mpsc, oneshot};

use crate::registers::SimRegisters;
use crate::values::SimValues;

/// How far the storing of the filters has come.
#[derive(Default)]
pub enum Filters {
    /// Not begun.
    #[default]
    Idle,
    /// The shards were asked for the slots that they have decided.
    Marks(Replies),
    /// The snapshot is taken, and the shards were asked to say when what they had decided is durable.
    Durable(FilterSnapshot, Slots, Replies),
    /// To be written.
    Store(FilterSnapshot, Slots),
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
            door.try_send(Message::Mark { durable, reply }).ok().map(|()| slots)
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
        keeper: &mut Keeper<SimRegisters, SimValues, FaultDisk>,
    ) -> Option<Result<&'static str, KeepError>> {
        let (next, done) = match std::mem::take(self) {
            Self::Idle => (Self::Marks(Replies::ask(doors, false)?), "filters: marks asked for"),
            Self::Marks(mut replies) => {
                if !replies.complete() {
                    *self = Self::Marks(replies);
                    return None;
                }
                let snapshot = snapshot_filters(catalog);
                match Replies::ask(doors, true) {
                    Some(durable) => {
                        (Self::Durable(snapshot, replies.slots, durable), "filters: snapshot taken")
                    }
                    None => (Self::Marks(replies), "filters: busy"),
                }
            }
            Self::Durable(snapshot, slots, mut replies) => {
                if !replies.complete() {
                    *self = Self::Durable(snapshot, slots, replies);
                    return None;
                }
                (Self::Store(snapshot, slots), "filters: durable")
            }
            Self::Store(snapshot, slots) => {
                if let Err(error) = keeper.store_filters(&snapshot, &slots) {
                    *self = Self::Store(snapshot, slots);
                    return Some(Err(error));
                }
                (Self::Idle, "filters: stored")
            }
        };
        *self = next;
        Some(Ok(done))
    }
}
