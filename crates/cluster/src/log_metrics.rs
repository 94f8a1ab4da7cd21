//! What the thread of a stripe's log reports: writes, their latency, and when ownership was proved.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Buckets of the latency in microseconds: four for each power of two.
const BUCKETS: usize = 128;

#[derive(Debug)]
pub(crate) struct LogMetrics {
    begin: Instant,
    pub writes: AtomicU64,
    pub bytes: AtomicU64,
    pub next_slot: AtomicU64,
    latency: [AtomicU64; BUCKETS],
    /// When the last durable frame was sent first, in nanoseconds since `begin`: ownership is proved then.
    /// `u64::MAX` if there is none.
    proved: AtomicU64,
}

impl Default for LogMetrics {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            writes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            next_slot: AtomicU64::new(0),
            latency: std::array::from_fn(|_| AtomicU64::new(0)),
            proved: AtomicU64::new(u64::MAX),
        }
    }
}

impl LogMetrics {
    /// The frame before `next_slot` is durable. It was sent at this time first.
    pub fn wrote(&self, sent: Instant, bytes: usize, next_slot: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.next_slot.store(next_slot, Ordering::Relaxed);
        self.latency[bucket(sent.elapsed())].fetch_add(1, Ordering::Relaxed);
        let since = sent.duration_since(self.begin).as_nanos();
        self.proved.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Time since a moment at which the node was certainly the owner, if there was one.
    pub fn proved_ago(&self) -> Option<Duration> {
        match self.proved.load(Ordering::Acquire) {
            u64::MAX => None,
            proved => Some(self.begin.elapsed().saturating_sub(Duration::from_nanos(proved))),
        }
    }

    /// The time within which this share of the writes was durable.
    pub fn latency(&self, share: f64) -> Duration {
        let counts: Vec<u64> = self.latency.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let limit = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut sum = 0;
        let reaches = |count: &u64| {
            sum += count;
            sum >= limit
        };
        counts.iter().position(reaches).map_or(Duration::ZERO, upper_bound)
    }
}

fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(4);
    let power = micros.ilog2() as usize;
    (4 * (power - 2) + (micros >> (power - 2)) as usize - 4).min(BUCKETS - 1)
}

/// The upper bound of a bucket.
fn upper_bound(bucket: usize) -> Duration {
    Duration::from_micros((bucket as u64 % 4 + 5) << (bucket / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_in_the_bucket_below_their_bound() {
        for micros in (0..2000).chain([10_000, 1_000_000, 60_000_000]) {
            let time = Duration::from_micros(micros);
            let bound = upper_bound(bucket(time));
            assert!(time < bound && bound.as_micros() <= 5.max(u128::from(micros) * 5 / 4 + 1), "{micros}");
        }
    }
}
