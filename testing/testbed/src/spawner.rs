//! Starts processes from a thread that lives as long as this process does.
//!
//! A process is told of the death of the *thread* that started it, not of the process. Threads of tests end with their test, those of a runtime
//! when they have nothing to do; a server that several tests share would die with the first.

use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// A command, and where its process is awaited.
type Order = (Command, Sender<std::io::Result<Child>>);

/// Starts a command.
pub fn spawn(command: Command) -> std::io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, next) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in next {
                let _nobody_waits = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = channel();
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    orders.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}
