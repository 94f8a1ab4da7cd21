//! Tasks of a runtime that abort the process if they panic, as the engine's threads do; a thread can wait for
//! their end.

use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use jeton_wal::AbortOnPanic;
use tokio::runtime::Handle;

use crate::lock::lock;

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
        let Some(running) = lock(&self.sender).clone() else { return };
        runtime.spawn(async move {
            let _running = running;
            let _guard = AbortOnPanic;
            task.await;
        });
    }

    /// Blocks until all tasks have ended.
    pub fn join(&self) {
        drop(lock(&self.sender).take());
        let receiver = lock(&self.receiver);
        while receiver.recv().is_ok() {}
    }
}
