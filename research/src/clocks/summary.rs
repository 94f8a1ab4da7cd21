//! The findings of the trials.

use std::collections::BTreeSet;

use super::slice::Slice;
use super::topology::Topology;
use super::trial::Trial;
use super::variants::counters;
use super::wire::WireSizes;
use crate::outcome::Finding;

/// Two rates that differ by less than this share count as equal.
const SAME: f64 = 0.01;

pub(crate) fn of(trials: &[Trial], wires: Option<&[WireSizes]>) -> Finding {
    let (best, all) = one_hash_is_best(trials);
    let pairs: u64 =
        trials.iter().flat_map(|trial| &trial.verdicts).map(|verdict| verdict.tally.pairs()).sum();
    let mut sentences = vec![format!("no cause is denied in {} million pairs", pairs / 1_000_000)];
    for (processes, slice) in [(1000, Slice::Mid), (5000, Slice::Near)] {
        let plain = trials.iter().find(|trial| {
            let setup = trial.setup;
            (setup.topology, setup.processes, setup.slice, setup.internal)
                == (Topology::Uniform, processes, slice, 0)
        });
        let of = |by_event| {
            let trial = plain?;
            let verdict = trial.verdict(by_event, counters(10, processes), 1)?;
            Some((verdict.kind.counters, verdict.tally.fpr(), verdict.tally.forward_fpr()))
        };
        if let (Some((counters, event, event_forward)), Some((_, process, process_forward))) =
            (of(true), of(false))
        {
            sentences.push(format!(
                "{processes} processes and {counters} counters, {} slice: of concurrent pairs {:.1} % are reported as possible ({:.1} % of those in the \
                 order of time), {:.1} % ({:.1} %) if events are named by their process",
                slice.name(),
                100.0 * event,
                100.0 * event_forward,
                100.0 * process,
                100.0 * process_forward,
            ));
        }
    }
    sentences.push(format!(
        "with names as published one counter for each event is best, or as good, in {best} of {all} settings"
    ));
    let (least, most) = estimates(trials);
    sentences.push(format!("the estimated precision is {least:+.2} to {most:+.2} from the true one"));
    if let Some(crossing) = wires.and_then(crossing) {
        sentences.push(crossing);
    }
    Finding {
        paper_says: "false positives, precision and accuracy for more than 1,000 processes, the best m and k, and the applications are future work \
                     (last slide)"
            .into(),
        we_measure: sentences.join("; "),
        why_they_differ: "false positives depend on the number of events that the two pasts do not share, relative to the counters: a Bloom clock of constant size \
                          degrades with more processes, and pr_p treats their common increments as random"
            .into(),
    }
}

/// Minimum number of false positives of a setting.
const TELLING: u64 = 100;

/// The number of settings with published names in which one hash is best, and the number of settings.
fn one_hash_is_best(trials: &[Trial]) -> (usize, usize) {
    let (mut best, mut all) = (0, 0);
    for trial in trials {
        let sizes: BTreeSet<usize> = trial.verdicts.iter().map(|verdict| verdict.kind.counters).collect();
        for size in sizes {
            let tallies =
                (1..=4).map(|hashes| trial.verdict(true, size, hashes).map(|verdict| &verdict.tally));
            let Some(tallies) = tallies.collect::<Option<Vec<_>>>() else { continue };
            if tallies[0].false_positives() >= TELLING {
                let least = tallies.iter().map(|tally| tally.fpr()).fold(f64::INFINITY, f64::min);
                all += 1;
                best += usize::from(tallies[0].fpr() <= least * (1.0 + SAME));
            }
        }
    }
    (best, all)
}

/// Minimum and maximum of the estimated precision minus the true precision.
fn estimates(trials: &[Trial]) -> (f64, f64) {
    let estimates =
        trials.iter().flat_map(|trial| &trial.verdicts).filter_map(|verdict| verdict.estimate.as_ref());
    let differences = estimates.filter(|estimate| estimate.positives().pairs >= 100).map(|estimate| {
        let (estimated, there) = estimate.precision();
        estimated - there
    });
    differences.fold((0.0, 0.0), |(least, most), difference| {
        (f64::min(least, difference), f64::max(most, difference))
    })
}

/// The number of processes from which a Bloom clock of 64 counters is shorter than a vector clock.
fn crossing(wires: &[WireSizes]) -> Option<String> {
    let of = |processes, counters| {
        let same = |wire: &&WireSizes| {
            (wire.topology, wire.processes, wire.counters) == (Topology::Uniform, processes, counters)
        };
        wires.iter().find(same)
    };
    let (few, few_bloom) = (of(64, None)?, of(64, Some(64))?);
    let (many, many_bloom) = (of(1000, None)?, of(1000, Some(64))?);
    Some(format!(
        "a stamp of 64 counters takes {:.0} bytes against {:.0} of a vector clock of 64 processes, and {:.0} against {:.0} of one of 1,000; in a \
         session {:.0} against {:.0}, and {:.0} against {:.0}",
        few_bloom.whole,
        few.whole,
        many_bloom.whole,
        many.whole,
        few_bloom.session(),
        few.session(),
        many_bloom.session(),
        many.session(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::slice::{Class, PairCounts};
    use super::super::trial::{ClockVariant, Setup, Verdict};
    use super::*;

    #[test]
    fn one_hash_wins_only_with_enough_false_positives() {
        let setup = Setup { topology: Topology::Ring, processes: 9, slice: Slice::Mid, internal: 0 };
        let verdict = |counters, hashes, false_positives| {
            let mut tally = PairCounts { backward: 10_000, ..PairCounts::default() };
            tally.classes[0] = Class { pairs: 10_000, causes: 0, false_positives };
            Verdict { kind: ClockVariant { by_event: true, counters, hashes }, tally, estimate: None }
        };
        let rates = [
            (3, [500, 600, 700, 800]),
            (4, [500, 499, 600, 600]),
            (5, [500, 400, 600, 600]),
            (6, [50, 9, 9, 9]),
        ];
        let mut verdicts: Vec<Verdict> = Vec::new();
        for (counters, rates) in rates {
            verdicts.extend((1..).zip(rates).map(|(hashes, rate)| verdict(counters, hashes, rate)));
        }
        // Not all variants of this size were tried.
        verdicts.extend([verdict(7, 1, 500), verdict(7, 2, 600)]);
        let trial = Trial { setup, runs: 1, events: [0; 3], sampled: 100, verdicts };
        assert_eq!(one_hash_is_best(&[trial]), (2, 3));
    }
}
