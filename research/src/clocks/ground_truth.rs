//! The true causal relation of sampled events, from vector clocks.
//!
//! y caused z if and only if the vector of z contains at least the number of y for the process of y.
//! A comparison of all entries would be wrong: a cause need not know of events of every process.

use bloom_clock::VectorClock;

use super::execution::Execution;
use super::replay::replay;

/// For each sampled event, its causes among the earlier sampled ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GroundTruth {
    /// A row of bits for each event.
    rows: Vec<Vec<u64>>,
}

impl GroundTruth {
    /// The relation of the events at these positions, in order. Keeps only the current vectors: those of a
    /// million events of a thousand processes would not fit into memory.
    pub(crate) fn of(execution: &Execution, sampled: &[usize]) -> Self {
        let clocks = (0..execution.processes).map(|process| VectorClock::begin(process, execution.processes));
        let mut rows: Vec<Vec<u64>> = Vec::with_capacity(sampled.len());
        replay(execution, clocks.collect(), |at, _, stamp| {
            if sampled.get(rows.len()) != Some(&at) {
                return;
            }
            let mut row = Row::new(sampled.len());
            for (number, earlier) in sampled[..rows.len()].iter().enumerate() {
                let cause = &execution.events[*earlier];
                if stamp.events()[cause.process as usize] >= u64::from(cause.number) {
                    row.set(number);
                }
            }
            rows.push(row.0);
        });
        Self { rows }
    }

    /// Whether event `first` of the sample caused event `second`.
    pub(crate) fn caused(&self, first: usize, second: usize) -> bool {
        self.rows[second][first / 64] >> (first % 64) & 1 == 1
    }
}

/// A row of bits.
struct Row(Vec<u64>);

impl Row {
    fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64)])
    }

    fn set(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::execution::{EventKind, Plan};
    use super::super::topology::Topology;
    use super::*;
    use jeton_testkit::Rng;

    /// All causes of all events by following the edges, without clocks.
    fn reachable(execution: &Execution) -> GroundTruth {
        let count = execution.events.len();
        let mut last: Vec<Option<usize>> = vec![None; execution.processes];
        let mut sent = vec![0; execution.slots];
        let mut rows: Vec<Vec<u64>> = Vec::new();
        for (at, event) in execution.events.iter().enumerate() {
            let mut from = last[event.process as usize].replace(at).into_iter().collect::<Vec<_>>();
            match event.what {
                EventKind::Send(slot) => sent[slot as usize] = at,
                EventKind::Receive(slot) => from.push(sent[slot as usize]),
                EventKind::Internal => {}
            }
            let mut row = Row::new(count);
            for cause in from {
                row.set(cause);
                row.0.iter_mut().zip(&rows[cause]).for_each(|(bits, more)| *bits |= more);
            }
            rows.push(row.0);
        }
        GroundTruth { rows }
    }

    #[test]
    fn the_relation_equals_reachability() {
        let mut causes = 0;
        for topology in Topology::ALL {
            for (processes, internal) in [(2, 0), (3, 50), (7, 0), (7, 90), (30, 20)] {
                for seed in 0..10 {
                    let plan = Plan { processes, topology, internal, events: 300 };
                    let execution = plan.play(Rng::new(seed));
                    let all: Vec<usize> = (0..300).collect();
                    let (truth, reached) = (GroundTruth::of(&execution, &all), reachable(&execution));
                    assert_eq!(truth, reached, "{plan:?}, seed {seed}");
                    causes += (0..300).filter(|at| truth.caused(*at, 299)).count();
                }
            }
        }
        assert!(causes > 10_000, "{causes}");
    }
}
