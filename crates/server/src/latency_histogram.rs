//! A histogram of latencies that threads update without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets with an upper bound; one more counts what is slower than the last bound.
const BOUNDS: usize = 37;

/// Upper bounds in nanoseconds: 50 us, each following one larger by a factor of about the square root of 2,
/// up to 13 s. Two buckets an octave bound the error of a quantile by 41 %, or 19 % if the bucket is
/// interpolated.
const BOUNDS_NANOS: [u64; BOUNDS] = {
    let mut bounds = [0; BOUNDS];
    let mut at = 0;
    while at < BOUNDS {
        let octave = 50_000 << (at / 2);
        bounds[at] = if at % 2 == 0 { octave } else { octave / 1000 * 1414 };
        at += 1;
    }
    bounds
};

/// Counts of latencies by bucket, and their sum.
#[derive(Debug)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BOUNDS + 1],
    sum_nanos: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_nanos: AtomicU64::new(0) }
    }
}

#[derive(Debug, PartialEq)]
pub struct Snapshot {
    /// The upper bound of each bucket in seconds and its own count, not cumulative. The last bound is
    /// infinite.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum_seconds: f64,
}

impl LatencyHistogram {
    /// Counts `number` requests that all took `latency`.
    pub fn observe(&self, latency: Duration, number: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NANOS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(number, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos.saturating_mul(number), Ordering::Relaxed);
    }

    /// The counts so far; `None` if there are none.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let bounds = BOUNDS_NANOS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum_seconds = self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9;
        (count > 0).then_some(Snapshot { buckets, count, sum_seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_by_at_most_half() {
        assert_eq!((BOUNDS_NANOS[0], BOUNDS_NANOS[1]), (50_000, 70_700));
        assert!(*BOUNDS_NANOS.last().unwrap() > 10_000_000_000);
        for pair in BOUNDS_NANOS.windows(2) {
            let factor = pair[1] as f64 / pair[0] as f64;
            assert!((1.41..1.42).contains(&factor), "{pair:?}");
        }
    }

    #[test]
    fn a_latency_is_in_the_bucket_whose_bound_includes_it() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.snapshot(), None);
        histogram.observe(Duration::from_micros(50), 3);
        histogram.observe(Duration::from_nanos(50_001), 2);
        histogram.observe(Duration::from_secs(60), 1);
        let Snapshot { buckets, count, sum_seconds } = histogram.snapshot().unwrap();
        assert_eq!((buckets[0], buckets[1]), ((0.000_05, 3), (0.000_070_7, 2)));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
        assert_eq!(count, 6);
        assert!((60.000_25..60.000_26).contains(&sum_seconds), "{sum_seconds}");
    }
}
