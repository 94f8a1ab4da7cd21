//! Threads and tasks that abort the process when they panic.
//!
//! Without this the rest of the process would continue with a part missing: memory and log may differ, and
//! callers wait for responses that never come. Only a recovery restores a consistent state.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

/// Starts a named thread. If it panics, the process aborts.
pub fn spawn_aborting(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(move || {
        let _guard = AbortOnPanic;
        run();
    })
}

/// Aborts the process. The reason is written to standard error past the capture of the test harness, which an
/// abort discards.
pub fn abort_process(why: &str) -> ! {
    let text = format!("jeton: {why}\njeton: aborting. The next start recovers everything acknowledged.\n");
    let _ = io::stderr().write_all(text.as_bytes());
    std::process::abort();
}

/// Aborts the process if it is dropped during a panic.
#[derive(Debug)]
pub struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            abort_process(&format!("{} panicked", thread::current().name().unwrap_or("a thread")));
        }
    }
}
