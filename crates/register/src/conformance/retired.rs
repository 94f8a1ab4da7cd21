//! Checks of dated logs, and of retiring them.

use std::sync::Barrier;

use bytes::Bytes;

use super::Terms;
use super::races::{WRITERS, together};
use super::subject::Subject;
use crate::block_on::block_on;
use crate::{Batch, Extent, Registers, Slot, Space, Written};

/// Above what this check retires, below what those do that come after it.
const RACED: std::ops::Range<u16> = 100..164;
/// In the end all below this are retired.
const LAST: u16 = 150;

pub async fn far_slots<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    // The first try of a request that came long after the one before: nothing but gaps in between.
    let far = Slot(64 * 100_000 + 1);
    for first in (0..200).step_by(20) {
        let mut batch = Batch::new();
        for number in first..first + 20 {
            batch.push(terms.session(number), far, &number.to_le_bytes());
            batch.push(terms.session(number), Slot(65), b"between");
        }
        let outcome = subject.write(&batch).await;
        let good = outcome.doubted || outcome.written.iter().all(|written| *written == Written::Fresh);
        subject.ensure(good, || format!("got {:?}", outcome.written));
    }
    for number in [0, 7, 199] {
        let log = terms.session(number);
        let value = Bytes::copy_from_slice(&number.to_le_bytes());
        let one = subject.read(log, far, 1).await;
        subject.ensure_eq(one, Ok(vec![(far, value.clone())]), "a read of one register");
        let both = vec![(Slot(65), Bytes::from("between")), (far, value)];
        subject.ensure_eq(subject.read(log, Slot(1), 10).await, Ok(both), "a read of all");
        let extent = Extent { trimmed: Slot::ZERO, last: far };
        subject.ensure_eq(subject.extent(log).await, extent, "the extent");
    }
    subject.trim(terms.session(7), Slot(65)).await;
    let extent = Extent { trimmed: Slot(65), last: far };
    subject.ensure_eq(subject.extent(terms.session(7)).await, extent, "the extent after a trim");
    let (written, _) = subject.write_one(terms.session(7), Slot(65), b"late").await;
    subject.ensure_eq(written, Written::Trimmed, "a write to a trimmed register");
    subject.write_fresh(terms.session(7), Slot(66), b"after").await;
}

/// Whether a log is retired, however it is asked.
async fn ensure_retired<R: Registers>(subject: &Subject<R>, terms: &Terms, number: u16, when: &str) {
    let log = terms.session(number);
    for slot in [Slot(1), Slot(65), Slot(64 * 100_000 + 1), Slot(1 << 40)] {
        let (written, _) = subject.write_one(log, slot, b"sleeper").await;
        subject.ensure_eq(
            written,
            Written::Trimmed,
            &format!("a write to session {number} slot {slot} {when}"),
        );
        let read = subject.read(log, slot, 1).await;
        subject.ensure_eq(read, Err(Slot::MAX), &format!("a read of session {number} slot {slot} {when}"));
    }
    let extent = subject.extent(log).await;
    subject.ensure_eq(extent, Extent::RETIRED, &format!("the extent of session {number} {when}"));
}

async fn ensure_kept<R: Registers>(subject: &Subject<R>, terms: &Terms, number: u16, when: &str) {
    let (written, _) = subject.write_one(terms.session(number), Slot(65), b"other").await;
    let kept = Written::Taken("between".into());
    subject.ensure_eq(written, kept, &format!("a write to session {number} {when}"));
}

pub async fn stays_written<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    // Another kind of log with a low id, which is not meant.
    let partition = terms.log(30);
    subject.write_fresh(partition, Slot(1), b"kept").await;
    subject.retire(Space::Transaction, terms.session(20).id).await;
    for number in [0, 7, 19] {
        ensure_retired(subject, terms, number, "after its end").await;
    }
    for number in [20, 21, 99] {
        ensure_kept(subject, terms, number, "which is not below").await;
    }
    // It is trimmed as far as can be: nothing is left to trim.
    subject.trim(terms.session(3), Slot(5)).await;
    ensure_retired(subject, terms, 3, "after a trim").await;
    let (written, _) = subject.write_one(partition, Slot(1), b"other").await;
    subject.ensure_eq(written, Written::Taken("kept".into()), "a write to a partition");
    subject.ensure_invalid(Space::Partition, terms.log(99).id + 1).await;
    let (written, _) = subject.write_one(partition, Slot(1), b"other").await;
    subject.ensure_eq(written, Written::Taken("kept".into()), "a write to a partition");
}

pub async fn retires_upwards<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    for below in [terms.session(40).id, terms.session(30).id, 0, terms.session(40).id] {
        subject.retire(Space::Transaction, below).await;
        for number in [0, 30, 39] {
            ensure_retired(subject, terms, number, "after a lower mark").await;
        }
        ensure_kept(subject, terms, 40, "after a lower mark").await;
    }
}

pub async fn sleepers<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let barrier = Barrier::new(WRITERS);
    let value = |writer: usize, number: u16| format!("writer {writer} session {number}");
    let race = |writer: usize| -> Vec<(u16, Written, bool)> {
        barrier.wait();
        let mut told = Vec::new();
        for number in RACED {
            if writer > 0 {
                let session = terms.session(number);
                let mine = value(writer, number);
                let (written, doubted) = block_on(subject.write_one(session, Slot(1), mine.as_bytes()));
                told.push((number, written, doubted));
            } else if number.is_multiple_of(4) && number < LAST {
                block_on(subject.retire(Space::Transaction, terms.session(number).id));
                // Whoever wakes up now, with any session below, comes too late.
                for old in [0, RACED.start.min(number - 1), number - 1] {
                    block_on(ensure_retired(subject, terms, old, "after a race"));
                }
            }
        }
        told
    };
    let told = together(race);
    subject.retire(Space::Transaction, terms.session(LAST).id).await;
    for number in RACED {
        if number < LAST {
            ensure_retired(subject, terms, number, "after all").await;
            continue;
        }
        let there = subject.read(terms.session(number), Slot(1), 1).await;
        let there = there.map(|registers| registers.into_iter().map(|(_, value)| value).next());
        let Ok(Some(there)) = there else {
            panic!("conformance: {}: session {number} is gone", subject.check)
        };
        for (writer, told) in (1..).zip(&told[1..]) {
            let mine = there == value(writer, number);
            let good =
                told.iter().filter(|told| told.0 == number).all(|(_, written, doubted)| match written {
                    Written::Fresh => mine,
                    Written::Taken(taken) => *taken == there && (!mine || *doubted),
                    Written::Trimmed => false,
                });
            subject.ensure(good, || {
                format!("session {number} holds {there:?}, but writer {writer} was told {told:?}")
            });
        }
    }
}

/// What the checks before left behind.
pub async fn are_retired_again<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    for below in [0, terms.session(3).id] {
        for number in [0, 7, 39, 99, LAST - 1] {
            ensure_retired(subject, terms, number, "after opening again").await;
        }
        ensure_kept(subject, terms, 180, "after opening again").await;
        subject.retire(Space::Transaction, below).await;
    }
}
