//! Fig. 9: Eq. (3) against the measured false-positive rate, over the number of ids inserted.

use anyhow::Result;

use crate::chart::Axis;
use crate::measure::key;
use crate::outcome::Outcome;
use crate::paper_filter::PaperFilter;
use crate::predicted_vs_measured::{AuthorsPoint, Comparison};
use crate::progress::Meter;
use crate::schedule::{Bursts, basic};

pub(crate) const TITLE: &str = "Fig. 9: Eq. (3) against measurement, by ids inserted";

/// Prototype, `Results/Paper/numElementstest2014-12-16`, by ids.
const AUTHORS: [AuthorsPoint; 6] = [
    (100, 2.6864e-6, 1.54387e-6),
    (200, 1.85833e-5, 2.5e-5),
    (300, 3.69864e-5, 5e-5),
    (400, 4.45043e-4, 5.2e-4),
    (500, 5.13288e-4, 5.9e-4),
    (600, 1.17075e-3, 1.285e-3),
];

pub(crate) fn run(meter: &mut Meter<'_>) -> Result<Outcome> {
    let comparison = Comparison {
        title: TITLE,
        x: Axis::linear("Ids inserted (bursts of 75 every 2 s, refresh every 5 s)", 60.0, 640.0)
            .with_ticks(&[100.0, 200.0, 300.0, 400.0, 500.0, 600.0]),
        x_column: "ids_inserted",
        y: Axis::log("False-positive rate", 1e-6, 1e-2),
        authors: &AUTHORS,
        play,
        paper_says: "Eq. (3) reasonably matches the measured rate (Sec. VI-B)",
        why_they_differ: "they agree because there is one past filter: the check is then just \"in future or in past\", and \
                          the pairs whose independence Eq. (3) assumes wrongly do not matter; the authors' lowest \
                          point is off because their probe stops at the second positive",
    };
    comparison.run(meter)
}

fn play(ids: u64, run: u8) -> Result<PaperFilter> {
    Bursts { ids, batch: 75 }.play(basic(6250, 5), &key(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicted_vs_measured::measure;

    #[test]
    fn eq3_matches_the_prototype_and_the_measurement() {
        for (ids, authors, _) in AUTHORS {
            let point = measure(ids, play).unwrap();
            assert!(
                (point.equation3 / authors - 1.0).abs() < 5e-6,
                "{ids} ids: {} {authors}",
                point.equation3
            );
            let (low, high) = point.measured.interval();
            assert!(low * 0.9 < point.equation3 && point.equation3 < high * 1.1, "{ids} ids");
        }
    }
}
