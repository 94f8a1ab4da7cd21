//! Checks of dense logs. A refused write may take effect late, when the gap is filled: every write to a
//! register has the same value.

use bytes::Bytes;

use super::EngineLimits;
use super::harness::EngineUnderTest;
use crate::{Batch, Extent, LogId, LogKind, Registers, Slot, WriteResult};

fn log(limits: &EngineLimits, kind: LogKind, number: u16) -> LogId {
    LogId { kind, id: u128::from(limits.first_log + number) }
}

async fn write<R: Registers>(engine: &EngineUnderTest<R>, log: LogId, slot: u64) -> WriteResult {
    engine.write_one(log, Slot(slot), slot.to_string().as_bytes()).await.0
}

async fn ensure_gap<R: Registers>(engine: &EngineUnderTest<R>, log: LogId, slot: u64, when: &str) {
    let written = write(engine, log, slot).await;
    engine.ensure_eq(written, WriteResult::Gap, &format!("a write to {log} slot {slot} {when}"));
}

async fn ensure_follows<R: Registers>(engine: &EngineUnderTest<R>, log: LogId, slot: u64) {
    let (written, value) = (write(engine, log, slot).await, Bytes::from(slot.to_string()));
    let good = [WriteResult::Fresh, WriteResult::Taken(value)].contains(&written);
    engine.ensure(good, || format!("a write to {log} slot {slot} got {written:?}"));
}

pub async fn refuses_gaps<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    for kind in [LogKind::Stripe, LogKind::Manifest, LogKind::Catalog] {
        let log = log(limits, kind, 0);
        // Slot 2 in a log of its own: a refused write of it may take effect after that of slot 1.
        ensure_gap(engine, self::log(limits, kind, 3), 2, "of an empty log").await;
        for slot in [3, 1 << 40] {
            ensure_gap(engine, log, slot, "of an empty log").await;
        }
        engine.ensure_eq(engine.extent(log).await, Extent::default(), "the extent after refused writes");
        ensure_follows(engine, log, 1).await;
        ensure_gap(engine, log, 3, "after slot 1").await;
        ensure_follows(engine, log, 2).await;
        ensure_follows(engine, log, 3).await;
        let (written, _) = engine.write_one(log, Slot(2), b"other").await;
        engine.ensure_eq(written, WriteResult::Taken("2".into()), "a write to a taken register");
    }
}

pub async fn batches<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let (one, other) = (log(limits, LogKind::Stripe, 1), log(limits, LogKind::Stripe, 2));
    let mut batch = Batch::new();
    for (log, slot) in [(one, 1), (other, 2), (one, 2), (other, 3), (limits.log(31), 9), (one, 3)] {
        batch.push(log, Slot(slot), b"value");
    }
    let written = engine.write(&batch).await.written;
    for (place, result) in written.iter().enumerate() {
        let gap = matches!(place, 1 | 3);
        let good = (*result == WriteResult::Gap) == gap && *result != WriteResult::Trimmed;
        engine.ensure(good, || format!("write {place} of the batch got {result:?}"));
    }
}

pub async fn follows_trims<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = log(limits, LogKind::Stripe, 0);
    engine.trim(log, Slot(3)).await;
    ensure_gap(engine, log, 5, "behind a trim").await;
    ensure_follows(engine, log, 4).await;
    engine.trim(log, Slot(9)).await;
    engine.ensure_eq(write(engine, log, 9).await, WriteResult::Trimmed, "a write to a trimmed register");
    ensure_gap(engine, log, 11, "behind a trim").await;
    ensure_follows(engine, log, 10).await;
    ensure_follows(engine, log, 11).await;
}

/// The state after the checks before.
pub async fn survive_restart<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = log(limits, LogKind::Stripe, 0);
    ensure_gap(engine, log, 13, "after opening again").await;
    ensure_follows(engine, log, 12).await;
}
