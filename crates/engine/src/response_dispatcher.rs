//! Sends responses. Waking a caller takes about as long as deciding a request, and a thread of its own sends
//! large groups of responses while the shard continues.

use std::sync::mpsc::{SyncSender, sync_channel};

use crate::pending::PendingResponse;

/// Up to this many responses are sent by the shard itself: handing them to a thread would take longer.
const FEW: usize = 8;

/// Maximum number of groups in the thread's queue. Beyond it a shard waits.
const GROUPS_MAX: usize = 64;

type Group = Vec<PendingResponse>;

#[derive(Debug, Clone)]
pub struct ResponseDispatcher(Option<SyncSender<Group>>);

impl ResponseDispatcher {
    /// Sends in the calling thread.
    pub fn inline() -> Self {
        Self(None)
    }

    /// Sends in another thread, which must run the returned function until the last clone is dropped.
    pub fn threaded() -> (Self, impl FnOnce() + Send) {
        let (groups, received) = sync_channel::<Group>(GROUPS_MAX);
        (Self(Some(groups)), move || received.into_iter().for_each(send))
    }

    pub fn send(&self, group: Group) {
        match &self.0 {
            Some(thread) if group.len() > FEW => {
                if let Err(unsent) = thread.send(group) {
                    send(unsent.0);
                }
            }
            _ => send(group),
        }
    }
}

fn send(group: Group) {
    group.into_iter().for_each(PendingResponse::send);
}
