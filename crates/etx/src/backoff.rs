//! The wait between two attempts at something that must come about at last.

use std::time::Duration;

/// Grows from one attempt to the next, up to a limit; whoever waits says what for, at first and then from time to time.
#[derive(Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_secs(1);

    /// Waits, for the next attempt.
    pub async fn after(&mut self, what: &str, why: &str) {
        self.attempts += 1;
        // The first and then one of 32, which at the longest pause is twice a minute.
        if self.attempts % 32 == 1 {
            tracing::warn!(attempts = self.attempts, why, "{what}; it is tried again");
        }
        tokio::time::sleep(self.length()).await;
    }

    fn length(&self) -> Duration {
        Self::MAX.min(Self::MIN * 2_u32.saturating_pow(self.attempts.min(16)))
    }
}
