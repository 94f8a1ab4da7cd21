//! The figures of the Bloom clock: its false positives, by size and number of processes.
//!
//! Kshemkalyani and Misra, *The Bloom Clock to Characterize Causality in Distributed Systems* (2020), leave
//! three questions open: more than 1,000 processes; the best parameters for them; and where a Bloom clock can
//! replace a vector clock. The data for the answers come from here: random executions from a seed
//! ([`execution`]), the true relation from vector clocks ([`ground_truth`]), the clocks of [`bloom_clock`] on
//! the same events ([`trial`]).
//!
//! Invariants: the same seed gives the same tables, byte for byte; times are in a separate table. A clock
//! that denies a cause is an error that stops the run.

mod charts;
mod estimate;
mod execution;
mod ground_truth;
mod parallel;
mod replay;
mod slice;
mod summary;
mod sweep;
mod tables;
mod timing;
mod topology;
mod trial;
mod trial_log;
mod variants;
mod wire;

use anyhow::Result;

use self::sweep::Sweep;
use self::topology::Topology;
use self::trial::SampleSizes;
use crate::Setting;
use crate::outcome::{ExtraPlot, Outcome};
use crate::progress::Meter;

pub(crate) const TITLE: &str = "Bloom clock: false positives, estimates, bytes, times";
pub(crate) const SWEEP_TITLE: &str = "Bloom clock, the long sweep: up to 5,000 processes; can be interrupted";

/// Cells of the quick figure.
const QUICK: SampleSizes = SampleSizes { sampled: 600, estimated: 80 };

/// Sample sizes of the sweep. Pairs of one execution are similar, so more runs are worth more than more
/// events.
const LONG: SampleSizes = SampleSizes { sampled: 1200, estimated: 80 };

/// The quick figure.
pub(crate) fn run(setting: &Setting, meter: &mut Meter<'_>) -> Result<Outcome> {
    let seed = setting.seed;
    let cells = sweep::quick();
    let sweep = Sweep { cells: &cells, effort: QUICK, fixed: false, seed };
    let mut setups: Vec<_> =
        [10, 32, 64, 100, 300, 1000, 5000].map(|processes| (Topology::Uniform, processes)).into();
    for topology in [Topology::Ring, Topology::ClientServer, Topology::Community] {
        setups.extend([100, 1000].map(|processes| (topology, processes)));
    }
    // Sizes and times take about as long as this many steps.
    const WIRE: usize = 40;
    const TIME: usize = 10;
    meter.expect(sweep.steps() + WIRE * setups.len() + TIME * timing::SIZES.len());
    let trials = sweep.run(None, meter)?;
    let wires = wire::measure(&setups, seed, || meter.steps(WIRE))?;
    let timings = timing::measure(seed, || meter.steps(TIME))?;
    let finding = summary::of(&trials, Some(&wires));
    Ok(Outcome {
        more: vec![
            ExtraPlot::new("-distance", Some(tables::distances(&trials)), charts::distances(&trials)),
            ExtraPlot::new("-topology", None, charts::topologies(&trials)),
            ExtraPlot::new("-calibration", Some(tables::calibration(&trials)), charts::calibration(&trials)),
            ExtraPlot::new("-bytes", Some(tables::bytes(&wires)), charts::bytes(&wires)),
            ExtraPlot::new("-times", Some(tables::times(&timings)), charts::times(&timings)),
        ],
        ..Outcome::new(tables::accuracy(&trials), charts::sizes_of(&trials), finding)
    })
}

/// The sweep. It records finished trials in `bloom-clock-sweep.journal` and resumes from it.
pub(crate) fn run_sweep(setting: &Setting, meter: &mut Meter<'_>) -> Result<Outcome> {
    let cells = sweep::long();
    let sweep = Sweep { cells: &cells, effort: LONG, fixed: true, seed: setting.seed };
    meter.expect(sweep.steps());
    let trials = sweep.run(Some(&setting.directory.join("bloom-clock-sweep.journal")), meter)?;
    let finding = summary::of(&trials, None);
    Ok(Outcome {
        more: vec![
            ExtraPlot::new("-distance", Some(tables::distances(&trials)), charts::distances(&trials)),
            ExtraPlot::new("-matched", Some(tables::matched(&trials)), charts::shares(&trials)),
            ExtraPlot::new("-hashes", None, charts::hashes(&trials)),
            ExtraPlot::new("-topology", None, charts::topologies(&trials)),
            ExtraPlot::new("-calibration", Some(tables::calibration(&trials)), charts::calibration(&trials)),
        ],
        ..Outcome::new(tables::accuracy(&trials), charts::sizes_of(&trials), finding)
    })
}
