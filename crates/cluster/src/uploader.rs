//! The thread that uploads checkpoints of a stripe when they are due.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jeton_engine::{Engine, run_at_low_priority};
use jeton_register::Registers;
use jeton_wal::spawn_aborting;

use crate::checkpoint_error::CheckpointError;
use crate::checkpoints::Checkpoints;
use crate::stripe_log::StripeLog;

/// Interval between checks, and the longest between attempts after an error.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The next upload waits until the log has grown by this part of what the last one has written, but not
/// longer than until it has grown by this many bytes. So at most four bytes are uploaded for a byte of log,
/// unless the stores rewrite more than 512 MiB at a time.
const AMPLIFICATION_MAX: u64 = 4;
const DUE_BYTES_MAX: u64 = 128 << 20;

/// When an upload is due.
#[derive(Debug, Clone)]
pub struct UploadOptions {
    /// Bytes of frames since the last checkpoint.
    pub log_bytes: u64,
    /// Time since the last checkpoint, if there are frames.
    pub interval: Duration,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self { log_bytes: 16 << 20, interval: Duration::from_secs(300) }
    }
}

/// The thread `jeton-upload` of a stripe. Dropping it waits for the step in progress: close the engine first.
pub struct Uploader {
    stop: Option<Sender<()>>,
    stopping: Arc<AtomicBool>,
    last_error: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Uploader {
    /// Starts the thread. It ends when another node owns the stripe.
    pub fn start<R: Registers>(
        engine: Arc<Engine<StripeLog<R>>>,
        log: Arc<StripeLog<R>>,
        options: UploadOptions,
    ) -> io::Result<Self> {
        let checkpoints = Checkpoints::new(engine, log);
        let stopping = checkpoints.stop_flag();
        let (stop, stopped) = channel();
        let last_error = Arc::<Mutex<Option<String>>>::default();
        let schedule = Schedule { checkpoints, options, last_error: last_error.clone(), last: Instant::now() };
        let run = move || run_at_low_priority(|| schedule.run(&stopped));
        let thread = Some(spawn_aborting("jeton-upload", run)?);
        Ok(Self { stop: Some(stop), stopping, last_error, thread })
    }

    /// Why the last upload failed, if it did.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that panics ends the process");
        }
    }
}

struct Schedule<R: Registers> {
    checkpoints: Checkpoints<R>,
    options: UploadOptions,
    last_error: Arc<Mutex<Option<String>>>,
    /// When the last upload ended.
    last: Instant,
}

impl<R: Registers> Schedule<R> {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut pause = CHECK_INTERVAL;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            if self.checkpoints.log().is_deposed() {
                return;
            }
            let result = match () {
                () if !self.checkpoints.is_cleaned() => self.checkpoints.clean_up(),
                () if self.is_due() => self.checkpoints.upload(),
                () => continue,
            };
            match &result {
                Ok(()) => {
                    pause = CHECK_INTERVAL;
                    self.last = Instant::now();
                }
                Err(CheckpointError::Deposed) => return,
                Err(CheckpointError::Overtaken) => {}
                Err(_) => pause = PAUSE_MAX.min(2 * pause),
            }
            let error = result.err().map(|error| error.to_string());
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        }
    }

    fn is_due(&self) -> bool {
        let bytes = self.checkpoints.log().log_bytes();
        let worth = (self.checkpoints.uploaded_bytes() / AMPLIFICATION_MAX).min(DUE_BYTES_MAX);
        let is_old = bytes > 0 && self.last.elapsed() >= self.options.interval;
        bytes >= worth && (bytes >= self.options.log_bytes || is_old)
    }
}
