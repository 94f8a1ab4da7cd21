//! The variants of clocks for a number of processes.

use super::trial::ClockVariant;

/// Counters per 100 processes.
pub(crate) const SHARES: [usize; 5] = [3, 10, 30, 100, 300];

/// Numbers of counters that do not depend on the processes.
const FIXED: [usize; 5] = [64, 128, 256, 512, 1024];

/// Numbers of hashes; only the first ones for fixed numbers of counters.
const HASHES: std::ops::RangeInclusive<u32> = 1..=4;
const HASHES_FIXED: u32 = 2;

/// Maximum number of counters.
const COUNTERS_MAX: usize = 5000;

/// Scales a number of counters per 100 processes.
pub(crate) fn counters(share: usize, processes: usize) -> usize {
    share * processes / 100
}

/// The clocks for this many processes, with or without the fixed numbers of counters.
pub(crate) fn variants(processes: usize, fixed: bool) -> Vec<ClockVariant> {
    let shares: Vec<usize> = SHARES.iter().map(|share| counters(*share, processes)).collect();
    // Three times the counters of a vector clock and more are useless: the vector clock is better.
    let fixed = FIXED.into_iter().filter(|counters| fixed && *counters <= (4 * processes).max(64));
    let mut sizes: Vec<usize> = shares.iter().copied().chain(fixed).collect();
    sizes.retain(|counters| (3..=COUNTERS_MAX).contains(counters));
    sizes.sort_unstable();
    sizes.dedup();
    let mut kinds = Vec::new();
    for counters in sizes {
        for by_event in [true, false] {
            let wanted = |hashes: &u32| shares.contains(&counters) || *hashes <= HASHES_FIXED;
            kinds.extend(HASHES.filter(wanted).map(|hashes| ClockVariant { by_event, counters, hashes }));
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_of_the_processes_and_round_numbers() {
        let sizes = |processes, fixed| {
            let mut sizes: Vec<_> = variants(processes, fixed).iter().map(|kind| kind.counters).collect();
            sizes.dedup();
            sizes
        };
        assert_eq!(sizes(10, true), [3, 10, 30, 64]);
        assert_eq!(sizes(1000, false), [30, 100, 300, 1000, 3000]);
        assert_eq!(sizes(5000, true), [64, 128, 150, 256, 500, 512, 1024, 1500, 5000]);
        // A share of 64 processes is one of the round numbers.
        let mut unlike = variants(64, true);
        unlike.sort();
        unlike.dedup();
        assert_eq!(unlike.len(), variants(64, true).len());
        assert_eq!((variants(10, false).len(), variants(10, true).len()), (3 * 8, 3 * 8 + 4));
    }
}
