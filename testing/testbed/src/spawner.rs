//! Starts processes from a thread that lives as long as this process.
//!
//! The parent death signal is sent when the *thread* that started a process ends. Threads of tests end with
//! their test, and threads of a runtime when they are idle; a server that several tests share would die with
//! the first.

use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// A command, and the channel for its process.
type SpawnRequest = (Command, Sender<std::io::Result<Child>>);

/// Starts a command.
pub fn spawn(command: Command) -> std::io::Result<Child> {
    static REQUESTS: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let requests = REQUESTS.get_or_init(|| {
        let (requests, next) = channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in next {
                let _receiver_gone = reply.send(command.spawn());
            }
        });
        requests
    });
    let (reply, child) = channel();
    let gone = || std::io::Error::other("the spawner thread has ended");
    requests.send((command, reply)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}
