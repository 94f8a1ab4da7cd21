//! The settings in a snapshot.

use std::time::Duration;

use super::{Reader, SnapshotError};
use crate::settings::{Growth, Settings, SettingsError};

pub(super) fn numbers(settings: &Settings) -> [u64; 7] {
    [
        settings.window_ns(),
        settings.target.to_bits(),
        settings.expected_ids,
        settings.memory_cap as u64,
        match settings.growth {
            Growth::Elastic => 0,
            Growth::Fixed => 1,
        },
        settings.skew_ns(),
        u64::from(settings.generations),
    ]
}

/// Reads the settings, with the smaller of the two memory caps.
pub(super) fn decode(body: &mut Reader<'_>, memory_cap: usize) -> Result<Settings, SnapshotError> {
    Ok(Settings {
        window: Duration::from_nanos(body.number("window")?),
        target: f64::from_bits(body.number("target")?),
        expected_ids: body.number("expected ids")?,
        memory_cap: body.index("memory cap", usize::MAX)?.min(memory_cap),
        growth: match body.number("growth")? {
            0 => Growth::Elastic,
            1 => Growth::Fixed,
            _ => return Err(SnapshotError::Invalid("growth")),
        },
        skew: Duration::from_nanos(body.number("skew")?),
        generations: body.index("generations", u32::MAX as usize)? as u32,
    })
}

pub(super) fn to_snapshot_error(error: SettingsError) -> SnapshotError {
    match error {
        SettingsError::MemoryCapTooSmall { cap, needed } => {
            SnapshotError::TooLarge { needed, memory_cap: cap }
        }
        SettingsError::OverBudget(over) => SnapshotError::OverBudget(over),
        SettingsError::OutOfMemory { .. } => SnapshotError::OutOfMemory,
        _ => SnapshotError::Invalid("settings"),
    }
}
