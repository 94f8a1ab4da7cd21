//! Shortens a failing history: leaves out steps while the same rule is violated.
//!
//! Each step has its own random numbers, so without it the others change only through the state.

use std::collections::BTreeSet;

use crate::run::{Outcome, RunSpec, run};

const RUNS_MAX: usize = 400;

/// The shortest run found that violates the same rule, and its outcome.
pub fn shrink(spec: &RunSpec, outcome: Outcome) -> (RunSpec, Outcome) {
    let Some(violation) = &outcome.violation else { return (spec.clone(), outcome) };
    let rule = violation.rule;
    let (mut best, mut best_outcome) = (spec.clone(), outcome);
    let try_without = |best: &mut RunSpec, best_outcome: &mut Outcome, without: &[u64]| -> bool {
        let mut shorter = best.clone();
        shorter.skip.extend(without);
        let outcome = run(&shorter);
        let same = outcome.violation.as_ref().is_some_and(|violation| violation.rule == rule);
        if same {
            (*best, *best_outcome) = (shorter, outcome);
        }
        same
    };
    let kept =
        |spec: &RunSpec| -> Vec<u64> { (0..spec.steps).filter(|step| !spec.skip.contains(step)).collect() };
    // Steps after the violation do not matter.
    let last = best_outcome.log.lines.last().map_or(0, |(step, _)| *step);
    best.steps = best.steps.min(last.saturating_add(1));
    let mut size = kept(&best).len().div_ceil(2).max(1);
    let mut left = RUNS_MAX;
    while left > 0 {
        let mut shorter = false;
        for chunk in kept(&best).chunks(size).rev() {
            if left == 0 {
                break;
            }
            left -= 1;
            shorter |= try_without(&mut best, &mut best_outcome, chunk);
        }
        if size == 1 && !shorter {
            break;
        }
        size = (size / 2).max(1);
    }
    (best, best_outcome)
}

/// The remaining steps in the form of `--keep`: `3,8-11`.
pub fn kept_text(spec: &RunSpec) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for step in (0..spec.steps).filter(|step| !spec.skip.contains(step)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => ranges.push((step, step)),
        }
    }
    let shown: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    shown.join(",")
}

/// Parses the output of [`kept_text`].
pub fn read_kept(text: &str) -> Result<BTreeSet<u64>, String> {
    let mut kept = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{part}: {error}"));
        kept.extend(number(first)?..=number(last)?);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_written() {
        let spec = RunSpec { seed: 1, steps: 12, skip: BTreeSet::from([0, 1, 3, 7, 8]), outside: false };
        assert_eq!(kept_text(&spec), "2,4-6,9-11");
        assert_eq!(read_kept("2,4-6,9-11"), Ok(BTreeSet::from([2, 4, 5, 6, 9, 10, 11])));
        assert!(read_kept("2-x").is_err());
    }
}
