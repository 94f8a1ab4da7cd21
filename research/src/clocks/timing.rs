//! Time per operation of a clock. These numbers change in every run and have a file of their own.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use bloom_clock::{BloomClock, Clock, DeltaEncoder, VectorClock};

use super::slice::Slice;
use super::topology::Topology;
use super::trial::{ClockVariant, Setup, TrialSeed};

/// Operations per batch, and number of batches.
const BATCH: u32 = 256;
const BATCHES: usize = 25;

/// Numbers of counters, or of processes.
pub(crate) const SIZES: [usize; 7] = [16, 64, 100, 256, 1000, 2048, 5000];

/// The time of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    /// Bloom clock or vector clock.
    pub(crate) bloom: bool,
    /// Number of counters or processes.
    pub(crate) size: usize,
    pub(crate) operation: &'static str,
    /// Nanoseconds: the median, and the fastest batch.
    pub(crate) median: f64,
    pub(crate) fastest: f64,
}

/// All operations at all sizes.
pub(crate) fn measure(seed: u64, mut step: impl FnMut()) -> Result<Vec<Timing>> {
    let mut timings = Vec::new();
    for size in SIZES {
        let setup = Setup { topology: Topology::Uniform, processes: 2, slice: Slice::Near, internal: 0 };
        let kind = ClockVariant { by_event: false, counters: size, hashes: 1 };
        let clocks = TrialSeed { setup, run: 0, seed }.clocks(&kind)?;
        let [mut here, mut there]: [BloomClock; 2] =
            clocks.try_into().map_err(|_| anyhow::anyhow!("two processes have two clocks"))?;
        let mut add = |bloom, operation, (median, fastest)| {
            timings.push(Timing { bloom, size, operation, median, fastest });
        };
        operations(&mut here, &mut there, |operation, time| add(true, operation, time));
        let stamp = here.tick().clone();
        let mut bytes = Vec::new();
        add(
            true,
            "write whole",
            time(|| {
                bytes.clear();
                black_box(&stamp).write(&mut bytes);
            }),
        );
        let mut session = DeltaEncoder::default();
        session.write(&stamp, &mut bytes);
        add(
            true,
            "tick and write in a session",
            time(|| {
                bytes.clear();
                session.write(here.tick(), &mut bytes);
            }),
        );
        let (mut here, mut there) = (VectorClock::begin(0, size), VectorClock::begin(1, size));
        operations(&mut here, &mut there, |operation, time| add(false, operation, time));
        step();
    }
    Ok(timings)
}

/// The operations that both kinds of clocks have.
fn operations<C: Clock>(here: &mut C, there: &mut C, mut add: impl FnMut(&'static str, (f64, f64))) {
    let before = there.tick().clone();
    add(
        "tick",
        time(|| {
            black_box(here.tick());
        }),
    );
    let sent = here.tick().clone();
    add(
        "receive",
        time(|| {
            let _ = black_box(there.receive(black_box(&sent)));
        }),
    );
    let after = there.now().clone();
    // The result is `Possibly`, so every number is compared.
    add(
        "compare",
        time(|| {
            black_box(C::after(black_box(&after), black_box(&before)));
        }),
    );
}

/// Nanoseconds per call: the median of the batches, and the fastest.
fn time(mut operation: impl FnMut()) -> (f64, f64) {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let began = Instant::now();
            (0..BATCH).for_each(|_| operation());
            began.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    (batches[BATCHES / 2], batches[0])
}
