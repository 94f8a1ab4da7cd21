//! Measures a false-positive rate by looking up ids that were never inserted.
//!
//! Invariant: the number of probes does not depend on how many of them hit. The authors' prototype continues
//! until it has found two positives, which biases its low rates upwards.

use forgetful_filter::{Fingerprint, Key};

/// Number of independent filters over which a measurement is averaged.
pub(crate) const RUNS: u8 = 40;

/// Minimum and maximum number of probes of a point.
const PROBES: std::ops::RangeInclusive<f64> = 200_000.0..=40_000_000.0;

/// The fixed key of a run.
pub(crate) fn key(run: u8) -> Key {
    Key::new([run; 16])
}

/// An id that schedules insert.
pub(crate) fn inserted(key: &Key, number: u64) -> Fingerprint {
    key.fingerprint(&number.to_le_bytes())
}

/// An id that no schedule inserts.
pub(crate) fn not_inserted(key: &Key, number: u64) -> Fingerprint {
    key.fingerprint(&(u64::MAX - number).to_le_bytes())
}

/// The number of probes for about two thousand positives at the expected rate, within bounds.
pub(crate) fn probes_for(expected_fpr: f64) -> u64 {
    (2000.0 / expected_fpr).clamp(*PROBES.start(), *PROBES.end()) as u64
}

/// Positives among probes for ids that were never inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) positives: u64,
    pub(crate) probes: u64,
}

impl Measured {
    pub(crate) fn fpr(&self) -> f64 {
        if self.probes == 0 { 0.0 } else { self.positives as f64 / self.probes as f64 }
    }

    /// The rate, unless there are too few positives.
    pub(crate) fn fpr_if_precise(&self) -> Option<f64> {
        (self.positives >= 10).then(|| self.fpr())
    }

    /// The 95 % confidence interval of the rate (Wilson's, which is valid for few positives too).
    pub(crate) fn interval(&self) -> (f64, f64) {
        const Z: f64 = 1.959_964;
        let (n, p) = (self.probes.max(1) as f64, self.fpr());
        let centre = p + Z * Z / (2.0 * n);
        let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        (((centre - spread) / scale).max(0.0), (centre + spread) / scale)
    }
}

impl std::ops::AddAssign for Measured {
    fn add_assign(&mut self, other: Self) {
        self.positives += other.positives;
        self.probes += other.probes;
    }
}

/// Looks up `probes` ids that were never inserted, on all processors. `check` returns the results of several
/// checks.
pub(crate) fn probe<const CHECKS: usize>(
    key: &Key,
    probes: u64,
    check: impl Fn(Fingerprint) -> [bool; CHECKS] + Sync,
) -> [Measured; CHECKS] {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let count = |thread: u64| {
        let mut positives = [0; CHECKS];
        for number in probes * thread / threads..probes * (thread + 1) / threads {
            for (positives, is_positive) in positives.iter_mut().zip(check(not_inserted(key, number))) {
                *positives += u64::from(is_positive);
            }
        }
        positives
    };
    let parts: Vec<[u64; CHECKS]> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let count = &count;
                    move || count(thread)
                })
            })
            .collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let positives = |index: usize| parts.iter().map(|part| part[index]).sum();
    std::array::from_fn(|index| Measured { positives: positives(index), probes })
}
