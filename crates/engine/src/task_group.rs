//! Tasks of a runtime that take the process with them when they panic, as the threads of the engine do, and whose end can be awaited by a thread.

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use jeton_register::EndWithPanic;
use tokio::runtime::Handle;

/// Tasks under way.
pub struct Tasks {
    /// Every task has one of these until it ends, or until its runtime drops it.
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
    /// Starts one, unless all were joined.
    pub fn start(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let Some(under_way) = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        runtime.spawn(async move {
            let _under_way = under_way;
            let _guard = EndWithPanic;
            task.await;
        });
    }

    /// Waits until all have ended.
    pub fn join(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        while receiver.recv().is_ok() {}
    }
}
