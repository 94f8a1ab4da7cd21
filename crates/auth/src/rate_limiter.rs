//! The rate of a token: a bucket that drains with operations and fills with time.
//!
//! What must hold: within any `t` seconds at most `burst + per_second * t` operations pass, however many threads ask. The
//! whole state is one number, the moment at which the bucket will be full again, so it is changed without a lock and means
//! the same after the rate was changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::grant::Rate;

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Readings of the time by threads that work side by side differ by less than this. If a bucket is further ahead than it
/// can be by more than this, the clock was set back, or the rate was raised.
const SLACK_NANOS: u64 = 10 * NANOS_PER_SECOND;

/// More than the rate of a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Throttled {
    /// More than allowed just now.
    #[error("over the rate of this token, try again in {} ms", retry_after.as_millis())]
    Wait {
        /// After this time it passes, if nobody else spends with the same token. Whole milliseconds.
        retry_after: Duration,
    },
    /// More in one request than is ever allowed at once.
    #[error("this token may spend at most {burst} operations at once: send smaller requests")]
    TooLarge {
        /// The most at once.
        burst: u32,
    },
}

impl Throttled {
    /// When to try again, if ever.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Wait { retry_after } => Some(retry_after),
            Self::TooLarge { .. } => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// The moment, in nanoseconds, at which it will be full if nobody spends. In the past: it is full.
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
        // Rounded up, so that the rate is kept and not nearly kept; and per operation, so that a burst of single
        // operations is as large as one at once.
        let interval = NANOS_PER_SECOND.div_ceil(u64::from(rate.per_second.max(1)));
        let cost = operations.saturating_mul(interval);
        let now = now.saturating_mul(NANOS_PER_MILLI);
        let latest = now.saturating_add(u64::from(rate.burst).saturating_mul(interval));

        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let (next, answer) = if full_at > latest.saturating_add(SLACK_NANOS) {
                // As empty as can be, from now on: otherwise nothing would pass until the clock is there again.
                (latest, wait(cost))
            } else {
                let next = full_at.max(now).saturating_add(cost);
                if next > latest {
                    return wait(next - latest);
                }
                (next, Ok(()))
            };
            // Nothing else is published by this number, so its own order is all that matters.
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return answer,
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
            let bucket = RateLimiter::default();
            assert_eq!(bucket.spend(rate(per_second, burst), NOW, u64::from(burst)), Ok(()));
            assert!(bucket.spend(rate(per_second, burst), NOW, 1).is_err(), "{per_second} {burst}");
            if burst > 1000 {
                continue;
            }
            let bucket = RateLimiter::default();
            for spent in 0..burst {
                assert_eq!(bucket.spend(rate(per_second, burst), NOW, 1), Ok(()), "{spent}");
            }
            assert!(bucket.spend(rate(per_second, burst), NOW, 1).is_err(), "{per_second} {burst}");
        }
    }

    #[test]
    fn more_than_a_burst_is_refused_for_ever_and_costs_nothing() {
        let bucket = RateLimiter::default();
        let refused = bucket.spend(rate(5, 10), NOW, 11);
        assert_eq!(refused, Err(Throttled::TooLarge { burst: 10 }));
        assert_eq!(refused.unwrap_err().retry_after(), None);
        assert_eq!(bucket.spend(rate(5, 10), NOW, u64::MAX), Err(Throttled::TooLarge { burst: 10 }));
        assert_eq!(bucket.spend(rate(5, 10), NOW, 10), Ok(()));
        assert_eq!(bucket.spend(rate(5, 10), NOW, 0), Ok(()));
    }

    #[test]
    fn a_clock_set_back_costs_one_burst_and_not_the_hour() {
        let bucket = RateLimiter::default();
        let rate = rate(10, 10);
        bucket.spend(rate, NOW, 10).unwrap();
        let hour_ago = NOW - 3_600_000;
        let retry = bucket.spend(rate, hour_ago, 1).unwrap_err().retry_after().unwrap();
        assert_eq!(retry, Duration::from_millis(100));
        assert_eq!(bucket.spend(rate, hour_ago + 100, 1), Ok(()));
    }

    #[test]
    fn threads_with_older_readings_of_the_time_gain_nothing() {
        let bucket = RateLimiter::default();
        let rate = rate(1000, 10);
        bucket.spend(rate, NOW, 10).unwrap();
        for _ in 0..100 {
            assert!(bucket.spend(rate, NOW - 9_000, 1).is_err());
            assert!(bucket.spend(rate, NOW, 1).is_err());
        }
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        for now in [0, u64::MAX / NANOS_PER_MILLI, u64::MAX] {
            let _any = RateLimiter::default().spend(rate(1, 1_000_000_000), now, 1_000_000_000);
        }
    }

    #[test]
    fn rounding_never_raises_the_rate() {
        // 142.86 ns an operation. Rounded down, the bucket would be full again after 994 ms.
        let rate = rate(7_000_000, 7_000_000);
        let bucket = RateLimiter::default();
        bucket.spend(rate, NOW, 7_000_000).unwrap();
        assert!(bucket.spend(rate, NOW + 999, 7_000_000).is_err());
        assert_eq!(bucket.spend(rate, NOW + 1001, 7_000_000), Ok(()));
    }

    #[test]
    fn threads_together_spend_one_burst() {
        let bucket = RateLimiter::default();
        let start = std::sync::Barrier::new(4);
        let spend = || {
            start.wait();
            (0..500_000).filter(|_| bucket.spend(rate(1, 1_000_000), NOW, 1).is_ok()).count()
        };
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(spend)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 1_000_000);
    }

    proptest! {
        #[test]
        fn the_promise_holds_and_waiting_helps(
            per_second in 1_u32..5000,
            burst in 1_u32..50,
            steps in prop::collection::vec((0_u64..300, 1_u64..60), 1..100),
        ) {
            let bucket = RateLimiter::default();
            let rate = rate(per_second, burst);
            let mut now = NOW;
            let mut passed: Vec<(u64, u64)> = Vec::new();
            for (pause, operations) in steps {
                now += pause;
                match bucket.spend(rate, now, operations) {
                    Ok(()) => passed.push((now, operations)),
                    Err(Throttled::TooLarge { .. }) => prop_assert!(operations > u64::from(burst)),
                    Err(Throttled::Wait { retry_after }) => {
                        let wait = u64::try_from(retry_after.as_millis()).unwrap();
                        prop_assert!(wait > 0);
                        prop_assert!(bucket.spend(rate, now + wait - 1, operations).is_err(), "too long a wait");
                        prop_assert_eq!(bucket.spend(rate, now + wait, operations), Ok(()));
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
