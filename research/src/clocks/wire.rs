//! The encoded size of stamps: Bloom clocks against vector clocks.
//!
//! Both use the same encoding: in full, the smallest number and the differences to it as varints; in a
//! session, only the increments since the last stamp, unless the full stamp is shorter. A session is
//! everything that one process sends. A sender with one connection per peer has rarer messages and longer
//! deltas. One stamp of 64 in a session is full.
//!
//! Invariant: the vector clock gets every optimisation that the Bloom clock has.

use anyhow::Result;
use bloom_clock::{DeltaEncoder, VectorClock};

use super::execution::{EventKind, Execution};
use super::parallel;
use super::replay::replay;
use super::slice::Slice;
use super::topology::Topology;
use super::trial::{ClockVariant, Setup, TrialSeed};

/// Number of processes, evenly spaced, whose sessions are measured.
const SENDERS: usize = 32;

/// The index of a process among those that are measured.
fn place(process: u32, processes: usize) -> Option<usize> {
    let every = processes.div_ceil(SENDERS);
    let process = process as usize;
    process.is_multiple_of(every).then_some(process / every)
}

/// Interval of full stamps in a session.
const WHOLE_EVERY: u64 = 64;

/// Lengths of stamps in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lengths {
    stamps: u64,
    bytes: u64,
}

impl Lengths {
    fn add(&mut self, bytes: usize) {
        self.stamps += 1;
        self.bytes += bytes as u64;
    }

    fn mean(&self) -> f64 {
        self.bytes as f64 / self.stamps.max(1) as f64
    }
}

/// Mean sizes of the stamps of one clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WireSizes {
    pub(crate) topology: Topology,
    pub(crate) processes: usize,
    /// Counters of a Bloom clock; `None` for a vector clock.
    pub(crate) counters: Option<usize>,
    pub(crate) stamps: u64,
    /// With 32 bits per counter, or 64 bits per process.
    pub(crate) plain: u64,
    pub(crate) whole: f64,
    /// In a session, between two full stamps.
    pub(crate) difference: f64,
}

impl WireSizes {
    /// The mean in a session: deltas and occasional full stamps.
    pub(crate) fn session(&self) -> f64 {
        (self.whole + (WHOLE_EVERY - 1) as f64 * self.difference) / WHOLE_EVERY as f64
    }
}

/// The clocks of a comparison.
pub(crate) const COUNTERS: [usize; 3] = [64, 256, 1024];

/// All clocks for these numbers of processes and topologies.
pub(crate) fn measure(
    setups: &[(Topology, usize)],
    seed: u64,
    mut step: impl FnMut(),
) -> Result<Vec<WireSizes>> {
    let of = |(topology, processes): &(Topology, usize)| -> Result<Vec<WireSizes>> {
        let (topology, processes) = (*topology, *processes);
        let slice = Slice::Mid;
        let setup = Setup { topology, processes, slice, internal: 0 };
        let lot = TrialSeed { setup, run: 0, seed };
        let execution = lot.play();
        let from = slice.range(processes).start;
        let mut wires = vec![vector(&execution, topology, from)];
        for counters in COUNTERS {
            wires.push(bloom(&lot, &execution, counters, from)?);
        }
        Ok(wires)
    };
    parallel::map(setups, of, |_| step()).into_iter().collect::<Result<Vec<_>>>().map(|all| all.concat())
}

fn bloom(lot: &TrialSeed, execution: &Execution, counters: usize, from: usize) -> Result<WireSizes> {
    let kind = ClockVariant { by_event: false, counters, hashes: 1 };
    let clocks = lot.clocks(&kind)?;
    let mut sessions: Vec<(u64, DeltaEncoder)> = (0..SENDERS).map(|_| (0, DeltaEncoder::default())).collect();
    let (mut whole, mut difference) = (Lengths::default(), Lengths::default());
    let mut bytes = Vec::new();
    replay(execution, clocks, |at, event, stamp| {
        let sender = place(event.process, execution.processes).and_then(|place| sessions.get_mut(place));
        let (Some((number, session)), EventKind::Send(_)) = (sender, event.what) else { return };
        bytes.clear();
        session.write(stamp, &mut bytes);
        *number += 1;
        if at < from {
            return;
        }
        if !(*number - 1).is_multiple_of(WHOLE_EVERY) {
            difference.add(bytes.len());
        }
        bytes.clear();
        stamp.write(&mut bytes);
        whole.add(bytes.len());
    });
    Ok(WireSizes {
        topology: lot.setup.topology,
        processes: execution.processes,
        counters: Some(counters),
        stamps: whole.stamps,
        plain: 4 * counters as u64,
        whole: whole.mean(),
        difference: difference.mean(),
    })
}

fn vector(execution: &Execution, topology: Topology, from: usize) -> WireSizes {
    let processes = execution.processes;
    let clocks: Vec<_> = (0..processes).map(|process| VectorClock::begin(process, processes)).collect();
    let mut last: Vec<(u64, Vec<u64>)> = vec![(0, vec![0; processes]); SENDERS];
    let (mut whole, mut difference) = (Lengths::default(), Lengths::default());
    replay(execution, clocks, |at, event, stamp| {
        let sender = place(event.process, processes).and_then(|place| last.get_mut(place));
        let (Some((number, last)), EventKind::Send(_)) = (sender, event.what) else { return };
        if at >= from {
            whole.add(whole_vector(stamp.events()));
            if !number.is_multiple_of(WHOLE_EVERY) {
                difference.add(in_session(*number, last, stamp.events()));
            }
        }
        *number += 1;
        last.copy_from_slice(stamp.events());
    });
    WireSizes {
        topology,
        processes,
        counters: None,
        stamps: whole.stamps,
        plain: 8 * processes as u64,
        whole: whole.mean(),
        difference: difference.mean(),
    }
}

/// Bytes of a varint.
fn length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// The encoding of a full stamp: kind, count, smallest number, differences. There are no generations.
fn whole_vector(events: &[u64]) -> usize {
    let base = events.iter().copied().min().unwrap_or(0);
    let numbers: usize = events.iter().map(|number| length(number - base)).sum();
    1 + length(events.len() as u64) + length(base) + numbers
}

/// The encoding in a session between two full stamps: the shorter one of delta and numbered full stamp.
fn in_session(number: u64, last: &[u64], now: &[u64]) -> usize {
    difference_of(number, last, now).min(1 + length(number) + whole_vector(now))
}

/// The encoding of a delta: kind, sequence number, number of increments, and for each the skipped counters
/// and the increment.
fn difference_of(number: u64, last: &[u64], now: &[u64]) -> usize {
    let (mut count, mut bytes, mut next) = (0, 0, 0);
    for (at, (last, now)) in last.iter().zip(now).enumerate() {
        if now > last {
            count += 1;
            bytes += length((at - next) as u64) + length(now - last);
            next = at + 1;
        }
    }
    1 + length(number) + length(count) + bytes
}

#[cfg(test)]
mod tests {
    use bloom_clock::{BloomClock, Clock, ClockParams, Identity, Stamp, TickKey};

    use super::*;

    /// A stamp with these counters, found by trying, because the library builds none from numbers.
    fn stamps(counters: usize, events: usize) -> Vec<Stamp> {
        let params = ClockParams::new(counters).unwrap().key(TickKey::Event);
        let mut clock = BloomClock::begin(params, Identity::from_number_never_used_before(7));
        (0..events).map(|_| clock.tick().clone()).collect()
    }

    #[test]
    fn vectors_and_stamps_have_the_same_encoding() {
        let stamps = stamps(100, 40_000);
        let numbers =
            |stamp: &Stamp| stamp.counters().iter().map(|counter| u64::from(*counter)).collect::<Vec<_>>();
        let mut session = DeltaEncoder::default();
        let mut bytes = Vec::new();
        let mut wholes = 0;
        for (number, at) in (0..40_000).step_by(777).enumerate() {
            bytes.clear();
            stamps[at].write(&mut bytes);
            // Except for the generation, which is one byte.
            assert_eq!(bytes.len() - 1, whole_vector(&numbers(&stamps[at])));
            bytes.clear();
            session.write(&stamps[at], &mut bytes);
            if number > 0 {
                let last = numbers(&stamps[at - 777]);
                let (length, whole) =
                    (in_session(number as u64, &last, &numbers(&stamps[at])), bytes[0] != 2);
                assert_eq!(bytes.len(), length + usize::from(whole), "but for the generation again");
                wholes += usize::from(whole);
            }
        }
        assert!(wholes > 10, "nearly all counters rise between two of these");
        let (first, second) = (numbers(&stamps[100]), numbers(&stamps[107]));
        session = DeltaEncoder::default();
        session.write(&stamps[100], &mut bytes);
        bytes.clear();
        session.write(&stamps[107], &mut bytes);
        assert_eq!((bytes[0], bytes.len()), (2, in_session(1, &first, &second)));
        // 127 counters are skipped between the two that changed, which still takes one byte.
        let mut risen = [0; 129];
        (risen[0], risen[128]) = (1, 1);
        assert_eq!(difference_of(1, &[0; 129], &risen), 7);
        assert_eq!([0, 127, 128, u64::MAX].map(length), [1, 1, 2, 10]);
    }

    #[test]
    fn a_vector_clock_is_shorter_for_few_and_longer_for_many() {
        let wires = measure(&[(Topology::Uniform, 32), (Topology::Uniform, 300)], 1, || {}).unwrap();
        let [few, few_bloom, _, _, many, many_bloom, ..] = wires[..] else { panic!("{wires:?}") };
        assert!(few.whole < few_bloom.whole, "{few:?} {few_bloom:?}");
        assert!(many.whole > 3.0 * many_bloom.whole, "{many:?} {many_bloom:?}");
        assert!(many.difference < many.whole && many_bloom.difference < many_bloom.whole);
        assert!(few.stamps > 1000 && many.stamps > 1000);
    }
}
