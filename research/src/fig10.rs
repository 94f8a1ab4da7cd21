//! Fig. 10: Eq. (3) against the measured false-positive rate, over the size of the constituent filters.

use anyhow::Result;

use crate::chart::Axis;
use crate::measure::key;
use crate::outcome::Outcome;
use crate::paper_filter::PaperFilter;
use crate::predicted_vs_measured::{AuthorsPoint, Comparison};
use crate::progress::Meter;
use crate::schedule::{Bursts, basic};

pub(crate) const TITLE: &str = "Fig. 10: Eq. (3) against measurement, by filter size";

/// Prototype, `Results/Paper/BFsizetest2014-12-16`, by bits in each filter.
const AUTHORS: [AuthorsPoint; 6] = [
    (6250, 4.42271e-4, 6.5e-4),
    (8750, 9.70394e-5, 5e-5),
    (12500, 1.84893e-5, 4.35635e-5),
    (15000, 7.80425e-6, 1.1786e-5),
    (25000, 6.69789e-7, 8.97505e-7),
    (27500, 4.21541e-7, 8.9157e-7),
];

pub(crate) fn run(meter: &mut Meter<'_>) -> Result<Outcome> {
    let comparison = Comparison {
        title: TITLE,
        x: Axis::linear("Bits in each constituent filter (300 ids in one burst)", 5000.0, 30_000.0),
        x_column: "bits_per_filter",
        y: Axis::log("False-positive rate", 1e-7, 1e-2),
        authors: &AUTHORS,
        play,
        paper_says: "the analysis is reasonably accurate for filters of 5k to 30k bits (Sec. VI-B)",
        why_they_differ: "one burst and no refresh make this a plain Bloom filter, for which Eq. (1) is well known; \
                          the authors' points scatter because they come from 20 000 probes, or from the first two \
                          positives",
    };
    comparison.run(meter)
}

fn play(bits: u64, run: u8) -> Result<PaperFilter> {
    // A batch larger than the number of ids: all arrive at one instant.
    Bursts { ids: 300, batch: 1000 }.play(basic(bits as usize, 5), &key(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicted_vs_measured::measure;

    #[test]
    fn eq3_equals_the_authors_values() {
        for (bits, authors, _) in &AUTHORS[..3] {
            let point = measure(*bits, play).unwrap();
            assert!(
                (point.equation3 / authors - 1.0).abs() < 5e-6,
                "{bits} bits: {} {authors}",
                point.equation3
            );
            assert!((point.measured.fpr() / point.equation3 - 1.0).abs() < 0.15, "{bits} bits");
        }
    }
}
