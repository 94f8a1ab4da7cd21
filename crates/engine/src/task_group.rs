//! Tasks of a runtime that abort the process if they panic, as the engine's threads do; a thread can wait for
//! their end.

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use jeton_wal::AbortOnPanic;
use tokio::runtime::Handle;

/// The running tasks.
pub struct Tasks {
    /// Each task holds a clone until it ends, or until its runtime drops it.
    sender: Mutex<Option<Sender<()>>>,
    receiver: Mutex<Receiver<()>>,
}

impl Default for Tasks {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender: Mutex::new(Some(sender)), receiver: Mutex::new(receiver) }
    }
}

impl Tasks {
    /// Spawns a task, unless all were joined.
    pub fn start(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let Some(under_way) = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        runtime.spawn(async move {
            let _under_way = under_way;
            let _guard = AbortOnPanic;
            task.await;
        });
    }

    /// Blocks until all tasks have ended.
    pub fn join(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        while receiver.recv().is_ok() {}
    }
}
