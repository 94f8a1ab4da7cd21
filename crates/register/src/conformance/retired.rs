//! Checks of dated logs and their retirement.

use std::sync::Barrier;

use bytes::Bytes;

use super::EngineLimits;
use super::block_on;
use super::harness::EngineUnderTest;
use super::races::{WRITERS, run_concurrently};
use crate::{Batch, Extent, LogKind, Registers, Slot, WriteResult};

/// Sessions of the concurrent check.
const RACED: std::ops::Range<u16> = 100..164;
/// All sessions below this one are retired at the end.
const LAST: u16 = 150;

pub async fn far_slots<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    // The first try of a request that came long after the one before: nothing but gaps in between.
    let far = Slot(64 * 100_000 + 1);
    for first in (0..200).step_by(20) {
        let mut batch = Batch::new();
        for number in first..first + 20 {
            batch.push(limits.session(number), far, &number.to_le_bytes());
            batch.push(limits.session(number), Slot(65), b"between");
        }
        let outcome = engine.write(&batch).await;
        let good = outcome.uncertain || outcome.written.iter().all(|written| *written == WriteResult::Fresh);
        engine.ensure(good, || format!("got {:?}", outcome.written));
    }
    for number in [0, 7, 199] {
        let log = limits.session(number);
        let value = Bytes::copy_from_slice(&number.to_le_bytes());
        let one = engine.read(log, far, 1).await;
        engine.ensure_eq(one, Ok(vec![(far, value.clone())]), "a read of one register");
        let both = vec![(Slot(65), Bytes::from("between")), (far, value)];
        engine.ensure_eq(engine.read(log, Slot(1), 10).await, Ok(both), "a read of all");
        let extent = Extent { trimmed: Slot::ZERO, last: far };
        engine.ensure_eq(engine.extent(log).await, extent, "the extent");
    }
    engine.trim(limits.session(7), Slot(65)).await;
    let extent = Extent { trimmed: Slot(65), last: far };
    engine.ensure_eq(engine.extent(limits.session(7)).await, extent, "the extent after a trim");
    let (written, _) = engine.write_one(limits.session(7), Slot(65), b"late").await;
    engine.ensure_eq(written, WriteResult::Trimmed, "a write to a trimmed register");
    engine.write_fresh(limits.session(7), Slot(66), b"after").await;
}

/// Fails the check unless all requests treat the log as retired.
async fn ensure_retired<R: Registers>(
    engine: &EngineUnderTest<R>,
    limits: &EngineLimits,
    number: u16,
    when: &str,
) {
    let log = limits.session(number);
    for slot in [Slot(1), Slot(65), Slot(64 * 100_000 + 1), Slot(1 << 40)] {
        let (written, _) = engine.write_one(log, slot, b"sleeper").await;
        engine.ensure_eq(
            written,
            WriteResult::Trimmed,
            &format!("a write to session {number} slot {slot} {when}"),
        );
        let read = engine.read(log, slot, 1).await;
        engine.ensure_eq(read, Err(Slot::MAX), &format!("a read of session {number} slot {slot} {when}"));
    }
    let extent = engine.extent(log).await;
    engine.ensure_eq(extent, Extent::RETIRED, &format!("the extent of session {number} {when}"));
}

async fn ensure_kept<R: Registers>(
    engine: &EngineUnderTest<R>,
    limits: &EngineLimits,
    number: u16,
    when: &str,
) {
    let (written, _) = engine.write_one(limits.session(number), Slot(65), b"other").await;
    let kept = WriteResult::Taken("between".into());
    engine.ensure_eq(written, kept, &format!("a write to session {number} {when}"));
}

pub async fn stays_written<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    // A log of another kind with a low id is not affected.
    let partition = limits.log(30);
    engine.write_fresh(partition, Slot(1), b"kept").await;
    engine.retire(LogKind::Transaction, limits.session(20).id).await;
    for number in [0, 7, 19] {
        ensure_retired(engine, limits, number, "after its end").await;
    }
    for number in [20, 21, 99] {
        ensure_kept(engine, limits, number, "which is not below").await;
    }
    // A trim of a retired log changes nothing.
    engine.trim(limits.session(3), Slot(5)).await;
    ensure_retired(engine, limits, 3, "after a trim").await;
    let (written, _) = engine.write_one(partition, Slot(1), b"other").await;
    engine.ensure_eq(written, WriteResult::Taken("kept".into()), "a write to a partition");
    engine.ensure_invalid(LogKind::Partition, limits.log(99).id + 1).await;
    let (written, _) = engine.write_one(partition, Slot(1), b"other").await;
    engine.ensure_eq(written, WriteResult::Taken("kept".into()), "a write to a partition");
}

pub async fn retires_upwards<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    for below in [limits.session(40).id, limits.session(30).id, 0, limits.session(40).id] {
        engine.retire(LogKind::Transaction, below).await;
        for number in [0, 30, 39] {
            ensure_retired(engine, limits, number, "after a lower mark").await;
        }
        ensure_kept(engine, limits, 40, "after a lower mark").await;
    }
}

pub async fn sleepers<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let barrier = Barrier::new(WRITERS);
    let value = |writer: usize, number: u16| format!("writer {writer} session {number}");
    let race = |writer: usize| -> Vec<(u16, WriteResult, bool)> {
        barrier.wait();
        let mut results = Vec::new();
        for number in RACED {
            if writer > 0 {
                let session = limits.session(number);
                let mine = value(writer, number);
                let (written, uncertain) = block_on(engine.write_one(session, Slot(1), mine.as_bytes()));
                results.push((number, written, uncertain));
            } else if number.is_multiple_of(4) && number < LAST {
                block_on(engine.retire(LogKind::Transaction, limits.session(number).id));
                // A delayed write to any session below is refused.
                for old in [0, RACED.start.min(number - 1), number - 1] {
                    block_on(ensure_retired(engine, limits, old, "after a race"));
                }
            }
        }
        results
    };
    let results = run_concurrently(race);
    engine.retire(LogKind::Transaction, limits.session(LAST).id).await;
    for number in RACED {
        if number < LAST {
            ensure_retired(engine, limits, number, "after all").await;
            continue;
        }
        let there = engine.read(limits.session(number), Slot(1), 1).await;
        let there = there.map(|registers| registers.into_iter().map(|(_, value)| value).next());
        let Ok(Some(there)) = there else {
            panic!("conformance: {}: session {number} is gone", engine.check)
        };
        for (writer, results) in (1..).zip(&results[1..]) {
            let mine = there == value(writer, number);
            let good = results.iter().filter(|results| results.0 == number).all(|(_, written, uncertain)| {
                match written {
                    WriteResult::Fresh => mine,
                    WriteResult::Taken(taken) => *taken == there && (!mine || *uncertain),
                    WriteResult::Trimmed | WriteResult::Gap => false,
                }
            });
            engine.ensure(good, || {
                format!("session {number} holds {there:?}, but writer {writer} got {results:?}")
            });
        }
    }
}

/// The state after the checks before.
pub async fn stay_retired<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    for below in [0, limits.session(3).id] {
        for number in [0, 7, 39, 99, LAST - 1] {
            ensure_retired(engine, limits, number, "after opening again").await;
        }
        ensure_kept(engine, limits, 180, "after opening again").await;
        engine.retire(LogKind::Transaction, below).await;
    }
}
