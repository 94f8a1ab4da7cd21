//! The scenario of a seed: sizes of the engine, tables, clients, and the weights of faults.

use std::time::Duration;

use jeton_core::{Durability, Format, Formats, MissingIdPolicy, Mode, TableSettings};
use jeton_engine::Options;

use crate::rng::Rng;

/// How far acknowledgements of relaxed tables run ahead of the disk.
pub const RELAXED_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
pub struct Profile {
    /// Sizes of the engine, so small that every limit is reached.
    pub options: Options,
    pub tables: Vec<TableSettings>,
    pub clients: usize,
    /// Weight of faults: 0 none, 3 many.
    pub fault_level: u32,
    /// Whether the wall clock is set during the run.
    pub clock_steps: bool,
    /// Whether bits of files flip.
    pub flips: bool,
    /// Whether the value store is rolled back in a crash.
    pub rollbacks: bool,
    /// Clients retry an answered operation once in this number of steps.
    pub duplicates: u64,
    /// Weight of long pauses.
    pub long_pauses: u32,
    /// Weight of changes of settings.
    pub changing: u32,
    /// Whether false positives are too rare to occur.
    pub tight: bool,
    /// Weight of bursts of operations.
    pub bursts: u32,
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Profile {
    pub fn draw(rng: &mut Rng) -> Self {
        let shards = rng.within(1, 3) as usize;
        let options = Options {
            shards,
            queue_max: rng.within(6, 40) as usize,
            batch_requests_max: rng.within(1, 12) as usize,
            cache_bytes: *rng.pick(&[300, 1_000, 4_000, 100_000]) * shards,
            dirty_bytes_max: *rng.pick(&[2_000, 6_000, 60_000]) * shards,
            copy_cells: rng.within(1, 4) as usize,
            recent_ids: *rng.pick(&[2, 5, 12, 60]),
            log_bytes: 1 << 16,
            filter_row_bytes: *rng.pick(&[256, 1_000, 1 << 20]),
            relaxed_interval: RELAXED_INTERVAL,
            segment_bytes: *rng.pick(&[64 << 10, 64 << 10, 128 << 10]),
            ..Options::default()
        };
        let tight = !rng.one_in(4);
        let mut tables = Vec::new();
        for _ in 0..rng.within(1, 2) {
            tables.push(settings(rng, tight));
        }
        Self {
            options,
            tables,
            clients: rng.within(2, 5) as usize,
            fault_level: *rng.pick(&[0, 1, 1, 2, 2, 3]),
            clock_steps: rng.one_in(3),
            flips: rng.one_in(8),
            rollbacks: rng.one_in(8),
            duplicates: rng.within(2, 8),
            long_pauses: *rng.pick(&[0, 2, 6]),
            changing: *rng.pick(&[0, 1, 4]),
            tight,
            bursts: *rng.pick(&[0, 4, 16]),
        }
    }
}

fn settings(rng: &mut Rng, tight: bool) -> TableSettings {
    let first = TableSettings {
        formats: formats(rng),
        durability: if rng.one_in(4) { Durability::Relaxed } else { Durability::Strict },
        without_id: if rng.one_in(3) { MissingIdPolicy::AtMostOnce } else { MissingIdPolicy::Refuse },
        expected_ids: *rng.pick(&[8, 64, 400]),
        memory_cap: 1 << 22,
        ..TableSettings::default()
    };
    changed(&first, rng, tight)
}

fn formats(rng: &mut Rng) -> Formats {
    // Filters for dated ids are slow to create, so half of the tables have none: more seeds find more than
    // more formats.
    let formats: &[Format] = match rng.below(4) {
        0 => &Format::ALL,
        1 => &[Format::Uuid7, Format::Ulid, Format::Event],
        _ => &[Format::Opaque, Format::Sequenced],
    };
    formats.iter().copied().fold(Formats::NONE, Formats::and)
}

/// Settings with other windows, another mode, and sometimes other formats. The durability stays.
pub fn changed(settings: &TableSettings, rng: &mut Rng, tight: bool) -> TableSettings {
    let dated_window = *rng.pick(&[secs(3), secs(20), secs(90), secs(600)]);
    let mode = if rng.one_in(3) {
        let target = if tight { *rng.pick(&[1e-9, 1e-8]) } else { *rng.pick(&[0.1, 0.01]) };
        Mode::Probabilistic { target }
    } else {
        Mode::Exact
    };
    TableSettings {
        formats: if rng.one_in(8) { formats(rng) } else { settings.formats },
        dated_window,
        opaque_window: *rng.pick(&[secs(3), secs(20), secs(90), secs(600)]),
        skew: *rng.pick(&[Duration::from_millis(500), secs(3)]),
        session_lease: *rng.pick(&[secs(2), secs(30), secs(300), secs(3600)]),
        mode,
        ..settings.clone()
    }
}
