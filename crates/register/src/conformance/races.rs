//! Checks of several callers at once, each on a thread of its own.

use std::sync::Barrier;
use std::thread;

use bytes::Bytes;

use super::Terms;
use super::subject::Subject;
use crate::block_on::block_on;
use crate::{Batch, Registers, Slot, Written};

/// How many callers there are at once.
pub const WRITERS: usize = 8;
const SLOTS: u64 = 64;

/// What one writer was told about one slot: its answer, and whether a try before it ended in doubt.
type Told = Vec<(Written, bool)>;

pub async fn one_winner<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(20);
    let barrier = Barrier::new(WRITERS);
    let name = |writer: usize, slot: u64| format!("writer {writer} slot {slot}");
    let race = |writer: usize| -> Told {
        barrier.wait();
        let mut told = Told::new();
        // Some alone, some in batches; and each writer in steps of its own, so that they meet in many ways.
        let step = 1 + writer as u64 % 4;
        for first in (1..=SLOTS).step_by(step as usize) {
            let mut batch = Batch::new();
            for slot in first..(first + step).min(SLOTS + 1) {
                batch.push(log, Slot(slot), name(writer, slot).as_bytes());
            }
            let outcome = block_on(subject.write(&batch));
            told.extend(outcome.written.into_iter().map(|written| (written, outcome.doubted)));
        }
        told
    };
    let told = together(race);
    let there = subject.read_all(log).await;
    subject.ensure_eq(there.len() as u64, SLOTS, "the slots written");
    for (index, (slot, value)) in there.iter().enumerate() {
        let winner = (0..WRITERS).find(|&writer| name(writer, slot.0) == *value);
        subject.ensure(winner.is_some(), || format!("slot {slot} holds {value:?}, which nobody wrote"));
        for (writer, told) in told.iter().enumerate() {
            let (written, doubted) = &told[index];
            let is_winner = winner == Some(writer);
            let good = match written {
                Written::Fresh => is_winner,
                Written::Taken(taken) => taken == value && (!is_winner || *doubted),
                Written::Trimmed => false,
            };
            subject.ensure(good, || {
                format!("slot {slot} holds {value:?}, but writer {writer} was told {written:?}")
            });
        }
    }
}

pub async fn sleepers<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(21);
    let barrier = Barrier::new(WRITERS);
    let race = |writer: usize| {
        barrier.wait();
        for slot in (1..=SLOTS).map(Slot) {
            if writer == 0 {
                if slot.0.is_multiple_of(4) {
                    block_on(subject.trim(log, slot));
                    // Whoever wakes up now, with any slot up to here, comes too late.
                    for old in [1, slot.0 / 2, slot.0] {
                        let (written, _) = block_on(subject.write_one(log, Slot(old), b"sleeper"));
                        subject.ensure_eq(
                            written,
                            Written::Trimmed,
                            &format!("slot {old} after a trim to {slot}"),
                        );
                    }
                }
            } else {
                block_on(subject.write_one(log, slot, format!("writer {writer}").as_bytes()));
            }
        }
    };
    together(race);
    for slot in (1..=SLOTS).map(Slot) {
        let (written, _) = subject.write_one(log, slot, b"sleeper").await;
        subject.ensure_eq(written, Written::Trimmed, &format!("slot {slot} after all"));
    }
    subject.ensure_eq(subject.read_all(log).await, Vec::new(), "what is left");
}

pub async fn prefix<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(22);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for slot in 1..=SLOTS {
                block_on(subject.write_fresh(log, Slot(slot), slot.to_string().as_bytes()));
            }
        });
        let mut seen = 0;
        loop {
            let done = writer.is_finished();
            let there = block_on(subject.read_all(log));
            let expected: Vec<(Slot, Bytes)> =
                (1..=there.len() as u64).map(|slot| (Slot(slot), slot.to_string().into())).collect();
            subject.ensure_eq(&there, &expected, "a log while it is written");
            subject.ensure(there.len() >= seen, || "what was read is not there any more".into());
            seen = there.len();
            if done {
                break;
            }
        }
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    subject.ensure_eq(subject.extent(log).await.last, Slot(SLOTS), "the last slot");
}

/// Runs the race on all writers' threads, and collects what they bring home.
pub fn together<T: Send>(race: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let race = &race;
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || race(writer))).collect();
        let join = |writer: thread::ScopedJoinHandle<'_, T>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        writers.into_iter().map(join).collect()
    })
}
