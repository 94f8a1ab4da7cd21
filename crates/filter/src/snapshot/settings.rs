//! The settings in a snapshot: a filter comes back with the promises it was built with.

use std::time::Duration;

use super::SnapshotError;
use super::bytes::Reader;
use crate::settings::{Growth, Settings};

pub(super) fn encode(settings: &Settings, body: &mut Vec<u8>) {
    let numbers = [
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
    ];
    numbers.iter().for_each(|number| body.extend_from_slice(&number.to_le_bytes()));
}

pub(super) fn decode(body: &mut Reader<'_>) -> Result<Settings, SnapshotError> {
    Ok(Settings {
        window: Duration::from_nanos(body.number("window")?),
        target: f64::from_bits(body.number("target")?),
        expected_ids: body.number("expected ids")?,
        memory_cap: body.index("memory cap", usize::MAX)?,
        growth: match body.number("growth")? {
            0 => Growth::Elastic,
            1 => Growth::Fixed,
            _ => return Err(SnapshotError::Invalid("growth")),
        },
        skew: Duration::from_nanos(body.number("skew")?),
        generations: body.index("generations", u32::MAX as usize)? as u32,
    })
}
