//! How long things took, in buckets of a few percent: bounded memory, however many there are.

use std::time::Duration;

/// Buckets for each doubling of the time.
const STEPS: u32 = 16;

/// Times, counted.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    buckets: Vec<u64>,
    max: Duration,
}

impl Latencies {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        let at = bucket(time);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.max = self.max.max(time);
    }

    /// Takes in those of somebody else.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.max = self.max.max(other.max);
    }

    /// The time within which this share of them was.
    pub fn at(&self, share: f64) -> Duration {
        let total: u64 = self.buckets.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper(at).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(time: Duration) -> usize {
    let micros = time.as_nanos() as f64 / 1e3;
    (micros.max(1.0).log2() * f64::from(STEPS)) as usize
}

fn upper(bucket: usize) -> Duration {
    Duration::from_secs_f64(((bucket + 1) as f64 / f64::from(STEPS)).exp2() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_within_a_few_percent() {
        let (mut odd, mut even) = (Latencies::default(), Latencies::default());
        for millis in 1..=1000_u64 {
            let half = if millis % 2 == 0 { &mut even } else { &mut odd };
            half.add(Duration::from_millis(millis));
        }
        odd.merge(&even);
        for (share, millis) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = odd.at(share).as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.05, "{share}: {found}");
        }
        assert_eq!(odd.at(1.0), Duration::from_millis(1000));
        assert_eq!(Latencies::default().at(0.5), Duration::ZERO);
    }
}
