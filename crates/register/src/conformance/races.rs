//! Checks with several concurrent callers, each on its own thread.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::EngineLimits;
use super::block_on;
use super::harness::EngineUnderTest;
use crate::{Batch, Registers, Slot, WriteResult};

/// The number of concurrent callers.
pub const WRITERS: usize = 8;
const SLOTS: u64 = 64;

/// The results of one writer, and whether an earlier attempt had an unknown outcome.
type WriterResults = Vec<(WriteResult, bool)>;

pub async fn one_winner<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(20);
    let barrier = Barrier::new(WRITERS);
    let name = |writer: usize, slot: u64| format!("writer {writer} slot {slot}");
    let race = |writer: usize| -> WriterResults {
        barrier.wait();
        let mut results = WriterResults::new();
        // Each writer has its own batch size, so that they interleave in many ways.
        let step = 1 + writer as u64 % 4;
        for first in (1..=SLOTS).step_by(step as usize) {
            let mut batch = Batch::new();
            for slot in first..(first + step).min(SLOTS + 1) {
                batch.push(log, Slot(slot), name(writer, slot).as_bytes());
            }
            let outcome = block_on(engine.write(&batch));
            results.extend(outcome.written.into_iter().map(|written| (written, outcome.uncertain)));
        }
        results
    };
    let results = run_concurrently(race);
    let there = engine.read_all(log).await;
    engine.ensure_eq(there.len() as u64, SLOTS, "the slots written");
    for (index, (slot, value)) in there.iter().enumerate() {
        let winner = (0..WRITERS).find(|&writer| name(writer, slot.0) == *value);
        engine.ensure(winner.is_some(), || format!("slot {slot} holds {value:?}, which no writer wrote"));
        for (writer, results) in results.iter().enumerate() {
            let (written, uncertain) = &results[index];
            let is_winner = winner == Some(writer);
            let good = match written {
                WriteResult::Fresh => is_winner,
                WriteResult::Taken(taken) => taken == value && (!is_winner || *uncertain),
                WriteResult::Trimmed | WriteResult::Gap => false,
            };
            engine
                .ensure(good, || format!("slot {slot} holds {value:?}, but writer {writer} got {written:?}"));
        }
    }
}

pub async fn sleepers<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(21);
    let barrier = Barrier::new(WRITERS);
    let race = |writer: usize| {
        barrier.wait();
        for slot in (1..=SLOTS).map(Slot) {
            if writer == 0 {
                if slot.0.is_multiple_of(4) {
                    block_on(engine.trim(log, slot));
                    // A delayed write to any slot up to here is refused.
                    for old in [1, slot.0 / 2, slot.0] {
                        let (written, _) = block_on(engine.write_one(log, Slot(old), b"sleeper"));
                        engine.ensure_eq(
                            written,
                            WriteResult::Trimmed,
                            &format!("slot {old} after a trim to {slot}"),
                        );
                    }
                }
            } else {
                block_on(engine.write_one(log, slot, format!("writer {writer}").as_bytes()));
            }
        }
    };
    run_concurrently(race);
    for slot in (1..=SLOTS).map(Slot) {
        let (written, _) = engine.write_one(log, slot, b"sleeper").await;
        engine.ensure_eq(written, WriteResult::Trimmed, &format!("slot {slot} after all"));
    }
    engine.ensure_eq(engine.read_all(log).await, Vec::new(), "what is left");
}

pub async fn prefix<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(22);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for slot in 1..=SLOTS {
                block_on(engine.write_fresh(log, Slot(slot), slot.to_string().as_bytes()));
            }
        });
        let mut seen = 0;
        loop {
            let done = writer.is_finished();
            let there = block_on(engine.read_all(log));
            let expected: Vec<(Slot, Bytes)> =
                (1..=there.len() as u64).map(|slot| (Slot(slot), slot.to_string().into())).collect();
            engine.ensure_eq(&there, &expected, "a log while it is written");
            engine.ensure(there.len() >= seen, || "what was read is not there any more".into());
            seen = there.len();
            if done {
                break;
            }
        }
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    engine.ensure_eq(engine.extent(log).await.last, Slot(SLOTS), "the last slot");
}

/// Runs `race` on all writer threads and returns their results.
pub fn run_concurrently<T: Send>(race: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let race = &race;
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || race(writer))).collect();
        let join = |writer: thread::ScopedJoinHandle<'_, T>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        writers.into_iter().map(join).collect()
    })
}
