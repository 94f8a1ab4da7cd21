//! Who gives the answers. Waking a caller takes about as long as deciding on what it asked, so where there are many to be woken, a
//! thread of its own does it while the shard goes on.

use std::sync::mpsc::{SyncSender, sync_channel};

use crate::pending::PendingResponse;

/// So few are answered by whoever has the answers: another thread would only begin later.
const FEW: usize = 8;

/// Groups of answers that may wait for the thread. Beyond that a shard waits for it.
const GROUPS_MAX: usize = 64;

type Group = Vec<PendingResponse>;

/// Gives answers.
#[derive(Debug, Clone)]
pub struct ResponseDispatcher(Option<SyncSender<Group>>);

impl ResponseDispatcher {
    /// At once, in the thread that has them.
    pub fn at_once() -> Self {
        Self(None)
    }

    /// By another thread, which is to run the function until the last of these is dropped.
    pub fn by_thread() -> (Self, impl FnOnce() + Send) {
        let (groups, received) = sync_channel::<Group>(GROUPS_MAX);
        (Self(Some(groups)), move || received.into_iter().for_each(give))
    }

    /// Gives them.
    pub fn give(&self, group: Group) {
        match &self.0 {
            Some(thread) if group.len() > FEW => {
                if let Err(unsent) = thread.send(group) {
                    give(unsent.0);
                }
            }
            _ => give(group),
        }
    }
}

fn give(group: Group) {
    group.into_iter().for_each(PendingResponse::give);
}
