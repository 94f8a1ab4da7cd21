//! The rate limiter of a token: a token bucket in the form of GCRA.
//!
//! What must hold: within any `t` seconds at most `burst + per_second * t` operations pass, for any number of
//! threads. The state is one number, the time at which the bucket is full again; threads update it without a
//! lock, and it stays valid when the rate changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::grant::Rate;

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Maximum difference of the clock readings of concurrent threads. If the bucket is ahead by more than this,
/// the clock was set back or the rate was raised.
const SLACK_NANOS: u64 = 10 * NANOS_PER_SECOND;

/// A request exceeds the rate limit of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Throttled {
    #[error("over the rate limit of this token, try again in {} ms", retry_after.as_millis())]
    Wait {
        /// The request passes after this time if no other request uses the token. Whole milliseconds.
        retry_after: Duration,
    },
    #[error("this token may spend at most {burst} operations at once: send smaller requests")]
    TooLarge { burst: u32 },
}

impl Throttled {
    /// The time after which a retry can succeed; `None` if none can.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Wait { retry_after } => Some(retry_after),
            Self::TooLarge { .. } => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// The time, in nanoseconds, at which the bucket is full if no operation passes. It is full if the time
    /// has passed.
    full_at: AtomicU64,
}

impl RateLimiter {
    pub(crate) fn spend(&self, rate: Rate, now: u64, operations: u64) -> Result<(), Throttled> {
        if operations == 0 {
            return Ok(());
        }
        if operations > u64::from(rate.burst) {
            return Err(Throttled::TooLarge { burst: rate.burst });
        }
        // Rounded up, so that the rate is never exceeded; and per operation, so that a burst of single
        // operations is as large as one request.
        let interval = NANOS_PER_SECOND.div_ceil(u64::from(rate.per_second.max(1)));
        let cost = operations.saturating_mul(interval);
        let now = now.saturating_mul(NANOS_PER_MILLI);
        let latest = now.saturating_add(u64::from(rate.burst).saturating_mul(interval));

        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let (next, result) = if full_at > latest.saturating_add(SLACK_NANOS) {
                // Empties the bucket: otherwise no operation would pass until the clock catches up.
                (latest, wait(cost))
            } else {
                let next = full_at.max(now).saturating_add(cost);
                if next > latest {
                    return wait(next - latest);
                }
                (next, Ok(()))
            };
            // The number publishes no other memory, so relaxed ordering suffices.
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(present) => full_at = present,
            }
        }
    }
}

fn wait(nanos: u64) -> Result<(), Throttled> {
    Err(Throttled::Wait { retry_after: Duration::from_millis(nanos.div_ceil(NANOS_PER_MILLI)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second, burst }
    }

    #[test]
    fn a_burst_passes_in_single_operations_and_at_once() {
        for (per_second, burst) in [(3, 3), (7, 100), (1, 1), (9_999_999, 1000), (1, 1_000_000_000)] {
            let limiter = RateLimiter::default();
            assert_eq!(limiter.spend(rate(per_second, burst), NOW, u64::from(burst)), Ok(()));
            assert!(limiter.spend(rate(per_second, burst), NOW, 1).is_err(), "{per_second} {burst}");
            if burst > 1000 {
                continue;
            }
            let limiter = RateLimiter::default();
            for spent in 0..burst {
                assert_eq!(limiter.spend(rate(per_second, burst), NOW, 1), Ok(()), "{spent}");
            }
            assert!(limiter.spend(rate(per_second, burst), NOW, 1).is_err(), "{per_second} {burst}");
        }
    }

    #[test]
    fn a_request_above_the_burst_costs_nothing() {
        let limiter = RateLimiter::default();
        let rejected = limiter.spend(rate(5, 10), NOW, 11);
        assert_eq!(rejected, Err(Throttled::TooLarge { burst: 10 }));
        assert_eq!(rejected.unwrap_err().retry_after(), None);
        assert_eq!(limiter.spend(rate(5, 10), NOW, u64::MAX), Err(Throttled::TooLarge { burst: 10 }));
        assert_eq!(limiter.spend(rate(5, 10), NOW, 10), Ok(()));
        assert_eq!(limiter.spend(rate(5, 10), NOW, 0), Ok(()));
    }

    #[test]
    fn a_clock_set_back_costs_at_most_one_burst() {
        let limiter = RateLimiter::default();
        let rate = rate(10, 10);
        limiter.spend(rate, NOW, 10).unwrap();
        let hour_ago = NOW - 3_600_000;
        let retry = limiter.spend(rate, hour_ago, 1).unwrap_err().retry_after().unwrap();
        assert_eq!(retry, Duration::from_millis(100));
        assert_eq!(limiter.spend(rate, hour_ago + 100, 1), Ok(()));
    }

    #[test]
    fn older_clock_readings_gain_nothing() {
        let limiter = RateLimiter::default();
        let rate = rate(1000, 10);
        limiter.spend(rate, NOW, 10).unwrap();
        for _ in 0..100 {
            assert!(limiter.spend(rate, NOW - 9_000, 1).is_err());
            assert!(limiter.spend(rate, NOW, 1).is_err());
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        for now in [0, u64::MAX / NANOS_PER_MILLI, u64::MAX] {
            let _any = RateLimiter::default().spend(rate(1, 1_000_000_000), now, 1_000_000_000);
        }
    }

    #[test]
    fn rounding_never_raises_the_rate() {
        // 142.86 ns an operation. Rounded down, the bucket would be full again after 994 ms.
        let rate = rate(7_000_000, 7_000_000);
        let limiter = RateLimiter::default();
        limiter.spend(rate, NOW, 7_000_000).unwrap();
        assert!(limiter.spend(rate, NOW + 999, 7_000_000).is_err());
        assert_eq!(limiter.spend(rate, NOW + 1001, 7_000_000), Ok(()));
    }

    #[test]
    fn concurrent_threads_share_one_burst() {
        let limiter = RateLimiter::default();
        let start = std::sync::Barrier::new(4);
        let spend = || {
            start.wait();
            (0..500_000).filter(|_| limiter.spend(rate(1, 1_000_000), NOW, 1).is_ok()).count()
        };
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 1_000_000);
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_retry_after_is_exact(
            per_second in 1_u32..5000,
            burst in 1_u32..50,
            steps in prop::collection::vec((0_u64..300, 1_u64..60), 1..100),
        ) {
            let limiter = RateLimiter::default();
            let rate = rate(per_second, burst);
            let mut now = NOW;
            let mut passed: Vec<(u64, u64)> = Vec::new();
            for (pause, operations) in steps {
                now += pause;
                match limiter.spend(rate, now, operations) {
                    Ok(()) => passed.push((now, operations)),
                    Err(Throttled::TooLarge { .. }) => prop_assert!(operations > u64::from(burst)),
                    Err(Throttled::Wait { retry_after }) => {
                        let wait = u64::try_from(retry_after.as_millis()).unwrap();
                        prop_assert!(wait > 0);
                        prop_assert!(limiter.spend(rate, now + wait - 1, operations).is_err(), "too long a wait");
                        prop_assert_eq!(limiter.spend(rate, now + wait, operations), Ok(()));
                        now += wait;
                        passed.push((now, operations));
                    }
                }
            }
            for (first, (from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for (until, operations) in &passed[first..] {
                    sum += operations;
                    let allowed = u64::from(burst) * 1000 + u64::from(per_second) * (until - from);
                    prop_assert!(sum * 1000 <= allowed, "{sum} within {} ms", until - from);
                }
            }
        }
    }
}
