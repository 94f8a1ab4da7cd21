//! The laboratory of the Bloom clock: how well it tells events apart, at what size, for how many processes.
//!
//! Kshemkalyani and Misra, *The Bloom Clock to Characterize Causality in Distributed Systems* (2020), end with three questions: more than 1,000 processes; the
//! best parameters for so many; where a Bloom clock can stand for a vector clock. The numbers for the answers come from here: executions drawn from a
//! seed ([`execution`]), the truth from vector clocks ([`truth`]), the clocks of [`bloom_clock`] on the same events ([`trial`]).
//!
//! What must hold: the same seed gives the same tables, to the byte; times are in a table of their own. No clock ever denies a cause: if one does, the lab stops.

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

/// What the quick figure compares.
const QUICK: SampleSizes = SampleSizes { sampled: 600, estimated: 80 };

/// What the long sweep compares. Pairs of one execution are much alike: more runs tell more than more events.
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
    // The bytes and the times take about as long as so many steps.
    const WIRE: usize = 40;
    const TIME: usize = 10;
    meter.expect(sweep.steps() + WIRE * setups.len() + TIME * timing::SIZES.len());
    let trials = sweep.run(None, meter)?;
    let wires = wire::measure(&setups, seed, || meter.steps(WIRE))?;
    let timings = timing::measure(seed, || meter.steps(TIME))?;
    Ok(Outcome {
        table: tables::accuracy(&trials),
        chart: charts::sizes_of(&trials),
        finding: summary::of(&trials, Some(&wires)),
        more: vec![
            ExtraPlot::new("-distance", Some(tables::distances(&trials)), charts::distances(&trials)),
            ExtraPlot::new("-topology", None, charts::topologies(&trials)),
            ExtraPlot::new("-calibration", Some(tables::calibration(&trials)), charts::calibration(&trials)),
            ExtraPlot::new("-bytes", Some(tables::bytes(&wires)), charts::bytes(&wires)),
            ExtraPlot::new("-times", Some(tables::times(&timings)), charts::times(&timings)),
        ],
        told: Vec::new(),
    })
}

/// The long sweep. What is done is in `bloom-clock-sweep.journal`.
pub(crate) fn run_sweep(setting: &Setting, meter: &mut Meter<'_>) -> Result<Outcome> {
    let cells = sweep::long();
    let sweep = Sweep { cells: &cells, effort: LONG, fixed: true, seed: setting.seed };
    meter.expect(sweep.steps());
    let trials = sweep.run(Some(&setting.directory.join("bloom-clock-sweep.journal")), meter)?;
    Ok(Outcome {
        table: tables::accuracy(&trials),
        chart: charts::sizes_of(&trials),
        finding: summary::of(&trials, None),
        more: vec![
            ExtraPlot::new("-distance", Some(tables::distances(&trials)), charts::distances(&trials)),
            ExtraPlot::new("-matched", Some(tables::matched(&trials)), charts::shares(&trials)),
            ExtraPlot::new("-hashes", None, charts::hashes(&trials)),
            ExtraPlot::new("-topology", None, charts::topologies(&trials)),
            ExtraPlot::new("-calibration", Some(tables::calibration(&trials)), charts::calibration(&trials)),
        ],
        told: Vec::new(),
    })
}
