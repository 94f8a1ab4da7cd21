//! The delay between retries of an operation that must succeed eventually.

use std::time::Duration;

/// A delay that doubles with every retry, up to a limit. The first retry and every 32nd are logged.
#[derive(Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_secs(1);

    /// Waits before the next retry.
    pub async fn after(&mut self, what: &str, why: &str) {
        self.attempts += 1;
        // At the longest delay, every 32nd retry is one in about half a minute.
        if self.attempts % 32 == 1 {
            tracing::warn!(attempts = self.attempts, why, "{what}; retrying");
        }
        tokio::time::sleep(self.length()).await;
    }

    fn length(&self) -> Duration {
        Self::MAX.min(Self::MIN * 2_u32.saturating_pow(self.attempts.min(16)))
    }
}
