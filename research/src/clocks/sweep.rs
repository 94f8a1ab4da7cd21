//! A resumable series of trials: finished trials are in a log and are not repeated.
//!
//! Invariant: the trials are the same whether they run at once or in pieces.

use std::path::Path;

use anyhow::Result;

use super::slice::Slice;
use super::topology::Topology;
use super::trial::{SampleSizes, Setup, Trial};
use super::trial_log::TrialLog;
use super::variants::variants;
use crate::progress::Meter;

/// A setup and its number of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) setup: Setup,
    pub(crate) runs: u32,
}

/// All trials of a sweep and their options.
pub(crate) struct Sweep<'a> {
    pub(crate) cells: &'a [Cell],
    pub(crate) effort: SampleSizes,
    /// Whether to try numbers of counters that do not depend on the number of processes.
    pub(crate) fixed: bool,
    pub(crate) seed: u64,
}

impl Sweep<'_> {
    /// Runs the trials that the log does not contain, or all if there is no log.
    pub(crate) fn run(&self, journal: Option<&Path>, meter: &mut Meter<'_>) -> Result<Vec<Trial>> {
        let (mut journal, found) =
            match journal.map(|path| TrialLog::open(path, self.seed, self.effort)).transpose()? {
                Some((journal, found)) => (Some(journal), found),
                None => (None, Vec::new()),
            };
        let mut trials = Vec::with_capacity(self.cells.len());
        for Cell { setup, runs } in self.cells.iter().copied() {
            let kinds = variants(setup.processes, self.fixed);
            let trial = match found.iter().find_map(|found| found.of(setup, runs, &kinds)) {
                Some(trial) => {
                    meter.steps(self.cost(&Cell { setup, runs }));
                    trial
                }
                None => {
                    let step = |cost| meter.steps(cost);
                    let trial = Trial::run(setup, runs, &kinds, self.effort, self.seed, step)?;
                    if let Some(journal) = &mut journal {
                        journal.add(&trial)?;
                    }
                    trial
                }
            };
            trials.push(trial);
        }
        Ok(trials)
    }

    /// The number of progress steps of a cell.
    fn cost(&self, cell: &Cell) -> usize {
        let kinds = variants(cell.setup.processes, self.fixed);
        cell.runs as usize * kinds.iter().map(|kind| Trial::cost(&cell.setup, kind)).sum::<usize>()
    }

    /// The number of progress steps of all cells.
    pub(crate) fn steps(&self) -> usize {
        self.cells.iter().map(|cell| self.cost(cell)).sum()
    }
}

/// A cell of the plain model: uniform topology, no internal events.
fn plain(processes: usize, slice: Slice, runs: u32) -> Cell {
    cell(Topology::Uniform, processes, slice, 0, runs)
}

fn cell(topology: Topology, processes: usize, slice: Slice, internal: u32, runs: u32) -> Cell {
    Cell { setup: Setup { topology, processes, slice, internal }, runs }
}

/// The cells of a run of about a minute.
pub(crate) fn quick() -> Vec<Cell> {
    let mut cells = vec![
        plain(10, Slice::Near, 20),
        plain(10, Slice::Mid, 20),
        plain(100, Slice::Near, 5),
        plain(100, Slice::Mid, 3),
        plain(1000, Slice::Near, 1),
        plain(1000, Slice::Mid, 1),
        plain(5000, Slice::Near, 1),
    ];
    for topology in [Topology::Ring, Topology::ClientServer, Topology::Community] {
        cells.push(cell(topology, 100, Slice::Mid, 0, 2));
    }
    for internal in [50, 90] {
        cells.push(cell(Topology::Uniform, 100, Slice::Mid, internal, 2));
    }
    cells
}

/// The cells of the sweep: the settings of the replications of the paper, and more processes.
pub(crate) fn long() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (processes, runs) in [(10, 20), (30, 5), (100, 3), (300, 1), (1000, 1)] {
        // The near slices of two executions differ most, because processes have few causes of each other at
        // the start.
        cells.push(plain(processes, Slice::Near, runs.max(5)));
        cells.push(plain(processes, Slice::Mid, runs));
        // For ten processes the square is the near slice.
        if processes > 10 {
            cells.push(plain(processes, Slice::Square, runs));
        }
    }
    cells.extend([plain(2000, Slice::Near, 2), plain(2000, Slice::Mid, 1), plain(5000, Slice::Near, 2)]);
    let others = [(Topology::Uniform, 50), (Topology::Uniform, 90)];
    let topologies = [Topology::Ring, Topology::ClientServer, Topology::Community];
    for (topology, internal) in others.into_iter().chain(topologies.map(|topology| (topology, 0))) {
        cells.extend([
            cell(topology, 10, Slice::Mid, internal, 10),
            cell(topology, 100, Slice::Near, internal, 2),
            cell(topology, 100, Slice::Square, internal, 2),
            cell(topology, 1000, Slice::Near, internal, 1),
            cell(topology, 1000, Slice::Mid, internal, 1),
            cell(topology, 5000, Slice::Near, internal, 1),
        ]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::progress::Silent;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("jeton-research-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn cells() -> [Cell; 3] {
        [
            plain(10, Slice::Mid, 2),
            cell(Topology::Ring, 10, Slice::Near, 0, 1),
            cell(Topology::Community, 12, Slice::Near, 50, 1),
        ]
    }

    fn run(cells: &[Cell], seed: u64, journal: Option<&Path>) -> Result<Vec<Trial>> {
        let effort = SampleSizes { sampled: 60, estimated: 20 };
        Sweep { cells, effort, fixed: true, seed }.run(journal, &mut Meter::new(&mut Silent))
    }

    #[test]
    fn an_interrupted_sweep_resumes_to_the_same_result() {
        let directory = directory("interrupted");
        let (whole, part) = (directory.join("whole"), directory.join("part"));
        let cells = cells();
        let at_once = run(&cells, 1, Some(&whole)).unwrap();
        assert_eq!(at_once, run(&cells, 1, None).unwrap(), "a log changes nothing");
        let bytes = std::fs::read(&whole).unwrap();
        assert_eq!(at_once, run(&cells, 1, Some(&whole)).unwrap());
        assert_eq!(std::fs::read(&whole).unwrap(), bytes, "nothing was done again");
        // After some cells, and at bytes within the first line, within a line of a trial, and right before an
        // end.
        run(&cells[..2], 1, Some(&part)).unwrap();
        let two = std::fs::read(&part).unwrap();
        assert!(two.len() < bytes.len() && bytes.starts_with(&two));
        for length in [0, 10, 30, 200, two.len() - 1, two.len(), two.len() + 100, bytes.len() - 1] {
            std::fs::write(&part, &bytes[..length]).unwrap();
            assert_eq!(run(&cells, 1, Some(&part)).unwrap(), at_once, "{length} bytes");
            assert_eq!(std::fs::read(&part).unwrap(), bytes, "{length} bytes");
        }
        // Everything after the last complete trial is dropped.
        std::fs::write(&part, [&bytes[..two.len()], &vec![b'x'; 2 * bytes.len()]].concat()).unwrap();
        assert_eq!(run(&cells, 1, Some(&part)).unwrap(), at_once);
        assert_eq!(std::fs::read(&part).unwrap(), bytes);
        // A changed byte is detected; its trial and those after it run again.
        let mut damaged = bytes.clone();
        let digit = two.len() - 300;
        damaged[digit] = if damaged[digit] == b'1' { b'2' } else { b'1' };
        std::fs::write(&part, &damaged).unwrap();
        assert_eq!(run(&cells, 1, Some(&part)).unwrap(), at_once);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_log_of_another_sweep_is_rejected_and_kept() {
        let directory = directory("another");
        let path = directory.join("journal");
        run(&cells()[..1], 1, Some(&path)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let error = run(&cells(), 2, Some(&path)).unwrap_err().to_string();
        assert!(error.contains("another sweep") && error.contains("seed 2"), "{error}");
        let held = std::fs::File::open(&path).unwrap();
        held.lock().unwrap();
        let error = run(&cells(), 1, Some(&path)).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        std::fs::write(directory.join("letter"), "Dear all").unwrap();
        assert!(run(&cells(), 1, Some(&directory.join("letter"))).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_number_of_runs_is_part_of_a_trial() {
        let directory = directory("runs");
        let path = directory.join("journal");
        let mut cells = cells();
        run(&cells[..1], 1, Some(&path)).unwrap();
        cells[0].runs = 1;
        let trials = run(&cells[..1], 1, Some(&path)).unwrap();
        assert_eq!(trials, run(&cells[..1], 1, None).unwrap());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
