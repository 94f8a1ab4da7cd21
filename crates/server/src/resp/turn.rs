//! Long loops on an async worker, which other connections share, run in turns.

use std::time::{Duration, Instant};

/// Time after which a loop yields to other connections. A step of a loop takes at most a few milliseconds.
const TURN: Duration = Duration::from_millis(1);

/// The time in which a loop runs before it yields.
pub struct Turn(Instant);

impl Turn {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Called after each step of a loop: yields if the turn is over.
    pub async fn yield_at_end(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            *self = Self::start();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_during_a_loop() {
        let done = Arc::new(AtomicBool::new(false));
        let other = done.clone();
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        let (start, mut turn) = (Instant::now(), Turn::start());
        while !done.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(10), "the loop does not yield");
            turn.yield_at_end().await;
        }
    }
}
