//! Threads that take the process with them when they panic, and what makes them do so, for tasks.
//!
//! Without that the rest would serve on, half dead: memory and log may be at odds, callers wait for answers that nobody gives, and
//! recovery is the only way back.

use std::io;
use std::thread::{self, JoinHandle};

/// Starts a thread of this name. If it panics, the process ends.
pub fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(move || {
        let _guard = EndWithPanic;
        run();
    })
}

/// Ends the process if it is dropped by a panic.
#[derive(Debug)]
pub struct EndWithPanic;

impl Drop for EndWithPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let name = thread::current().name().unwrap_or("a thread").to_owned();
            eprintln!(
                "jeton: {name} panicked; ending now, the next start finds everything that was acknowledged"
            );
            std::process::abort();
        }
    }
}
