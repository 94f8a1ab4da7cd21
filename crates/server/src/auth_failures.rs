//! Failed authentication: a count, a log line, and a delay of the connection.
//!
//! The delay slows down one connection and no other client, so that nobody can lock out others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jeton_auth::AuthError;

use crate::Service;
use crate::metrics::Metric;

/// Delay after the first failure of a connection. It doubles with each further one.
const DELAY_MIN: Duration = Duration::from_millis(50);

const DELAY_MAX: Duration = Duration::from_secs(2);

/// The failed attempts of a connection to authenticate.
#[derive(Debug, Default)]
pub struct AuthFailures(AtomicU32);

impl AuthFailures {
    /// Counts and logs a failure, and returns the delay of the response. `metric` is that of the protocol. A
    /// request without a token is not a failure.
    pub fn add(&self, service: &Service, metric: Metric, peer: &str, why: AuthError) -> Duration {
        if why == AuthError::NoToken {
            return Duration::ZERO;
        }
        service.metrics.add(metric, 1);
        if let Some(suppressed) = service.auth_failure_log.permit(service.millis()) {
            tracing::warn!(peer, suppressed, %why, "authentication failed");
        }
        delay(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The delay after `earlier` failures and one more.
fn delay(earlier: u32) -> Duration {
    DELAY_MIN.saturating_mul(1 << earlier.min(16)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_maximum() {
        let delays = [0, 1, 2, 5, 6, 31, u32::MAX].map(|earlier| delay(earlier).as_millis());
        assert_eq!(delays, [50, 100, 200, 1600, 2000, 2000, 2000]);
    }
}
