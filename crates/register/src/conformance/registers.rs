//! Checks of one caller alone.

use bytes::Bytes;

use super::Terms;
use super::subject::Subject;
use crate::{Batch, Extent, Registers, Slot, Written};

pub async fn takes_one_value<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(0);
    subject.ensure_eq(subject.extent(log).await, Extent::default(), "the extent of an empty log");
    subject.ensure_eq(subject.read(log, Slot(1), 10).await, Ok(Vec::new()), "a read of an empty log");
    subject.write_fresh(log, Slot(1), b"first").await;
    // An equal value too: only one writer may believe that it was the first.
    for value in ["second", "first", ""] {
        let (written, _) = subject.write_one(log, Slot(1), value.as_bytes()).await;
        subject.ensure_eq(written, Written::Taken("first".into()), "a later write");
    }
    let all = vec![(Slot(1), Bytes::from("first"))];
    subject.ensure_eq(subject.read(log, Slot(1), 10).await, Ok(all), "a read");
    let extent = Extent { trimmed: Slot::ZERO, last: Slot(1) };
    subject.ensure_eq(subject.extent(log).await, extent, "the extent");
}

pub async fn twice_in_a_batch<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(1);
    let mut batch = Batch::new();
    batch.push(log, Slot(1), b"one");
    batch.push(log, Slot(1), b"other");
    batch.push(log, Slot(2), b"two");
    let outcome = subject.write(&batch).await;
    let one = Written::Taken("one".into());
    let fresh = [Written::Fresh, one.clone(), Written::Fresh];
    let again = [one.clone(), one, Written::Taken("two".into())];
    let good = outcome.written == fresh || outcome.doubted && outcome.written == again;
    subject.ensure(good, || format!("got {:?}", outcome.written));
}

pub async fn learns_an_outcome<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(2);
    for slot in (1..=20).map(Slot) {
        subject.write_and_leave(log, slot, b"mine");
        let (written, _) = subject.write_one(log, slot, b"mine").await;
        let mine = [Written::Fresh, Written::Taken("mine".into())].contains(&written);
        subject.ensure(mine, || format!("slot {slot}: got {written:?}"));
        let (written, _) = subject.write_one(log, slot, b"yours").await;
        subject.ensure_eq(written, Written::Taken("mine".into()), "a write by another");
    }
}

pub async fn reads_ranges<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(3);
    let mut batch = Batch::new();
    for slot in 1..=50u64 {
        batch.push(log, Slot(slot), slot.to_string().as_bytes());
        // Neighbours of other logs lie between them.
        batch.push(terms.log(4), Slot(slot), b"between");
    }
    subject.write(&batch).await;
    let expected = |from: u64, to: u64| -> Vec<(Slot, Bytes)> {
        (from..=to).map(|slot| (Slot(slot), slot.to_string().into())).collect()
    };
    for (from, limit, to) in [(1, 1, 1), (1, 50, 50), (1, 1000, 50), (20, 7, 26), (50, 7, 50), (51, 7, 50)] {
        let got = subject.read(log, Slot(from), limit).await;
        subject.ensure_eq(got, Ok(expected(from, to)), &format!("a read from {from}, at most {limit}"));
    }
    subject.ensure_eq(subject.read(log, Slot(1), 0).await, Ok(Vec::new()), "a read of nothing");
    subject.ensure_eq(subject.read_all(log).await, expected(1, 50), "a read in parts");
}

pub async fn leaves_gaps_out<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(5);
    subject.write_fresh(log, Slot(10), b"ten").await;
    subject.write_fresh(log, Slot(3), b"three").await;
    let there = vec![(Slot(3), Bytes::from("three")), (Slot(10), "ten".into())];
    subject.ensure_eq(subject.read(log, Slot(1), 10).await, Ok(there), "a read across gaps");
    let rest = vec![(Slot(10), Bytes::from("ten"))];
    subject.ensure_eq(subject.read(log, Slot(4), 10).await, Ok(rest), "a read that begins in a gap");
    subject.write_fresh(log, Slot(5), b"five").await;
    let slots: Vec<Slot> = subject.read_all(log).await.into_iter().map(|(slot, _)| slot).collect();
    subject.ensure_eq(slots, vec![Slot(3), Slot(5), Slot(10)], "the slots after filling a gap");
    subject.ensure_eq(subject.extent(log).await.last, Slot(10), "the last slot");
}

pub async fn keeps_values_whole<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(6);
    let large: Vec<u8> = (0..terms.value_bytes_max).map(|index| (index % 251) as u8).collect();
    subject.write_fresh(log, Slot(1), b"").await;
    subject.write_fresh(log, Slot(2), &large).await;
    subject.write_fresh(log, Slot(3), b"").await;
    let all = subject.read_all(log).await;
    let lens: Vec<usize> = all.iter().map(|(_, value)| value.len()).collect();
    subject.ensure_eq(lens, vec![0, large.len(), 0], "the lengths of the values");
    subject.ensure(all[1].1 == large, || "the large value is not what was written".into());
    let (written, _) = subject.write_one(log, Slot(1), b"x").await;
    subject.ensure_eq(written, Written::Taken(Bytes::new()), "a write to a register that holds nothing");
}

pub async fn stays_written<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(7);
    for slot in [1, 2, 4, 5, 6] {
        subject.write_fresh(log, Slot(slot), b"value").await;
    }
    subject.trim(log, Slot(4)).await;
    let extent = Extent { trimmed: Slot(4), last: Slot(6) };
    subject.ensure_eq(subject.extent(log).await, extent, "the extent");
    // Slot 3 was never written: it must be as closed as the others.
    for slot in 1..=4 {
        let (written, _) = subject.write_one(log, Slot(slot), b"late").await;
        subject.ensure_eq(written, Written::Trimmed, &format!("a write to trimmed slot {slot}"));
        let read = subject.read(log, Slot(slot), 10).await;
        subject.ensure_eq(read, Err(Slot(4)), &format!("a read from trimmed slot {slot}"));
    }
    let (written, _) = subject.write_one(log, Slot(5), b"late").await;
    subject.ensure_eq(written, Written::Taken("value".into()), "a write above the trim point");
    let slots: Vec<Slot> = subject.read_all(log).await.into_iter().map(|(slot, _)| slot).collect();
    subject.ensure_eq(slots, vec![Slot(5), Slot(6)], "what is left");

    // All of it, and beyond what was written.
    subject.trim(log, Slot(9)).await;
    let extent = Extent { trimmed: Slot(9), last: Slot(6) };
    subject.ensure_eq(subject.extent(log).await, extent, "the extent of a log without values");
    let (written, _) = subject.write_one(log, Slot(9), b"late").await;
    subject.ensure_eq(written, Written::Trimmed, "a write to a slot trimmed before it was written");
    subject.write_fresh(log, Slot(10), b"next").await;
}

pub async fn trims_upwards<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(8);
    for slot in 1..=6 {
        subject.write_fresh(log, Slot(slot), b"value").await;
    }
    for through in [4, 2, 0, 4] {
        subject.trim(log, Slot(through)).await;
        let extent = Extent { trimmed: Slot(4), last: Slot(6) };
        subject.ensure_eq(
            subject.extent(log).await,
            extent,
            &format!("the extent after a trim to {through}"),
        );
        let (written, _) = subject.write_one(log, Slot(3), b"late").await;
        subject.ensure_eq(written, Written::Trimmed, &format!("a write after a trim to {through}"));
    }
}

/// What the checks before left behind.
pub async fn are_there_again<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let log = terms.log(0);
    let (written, _) = subject.write_one(log, Slot(1), b"again").await;
    subject.ensure_eq(written, Written::Taken("first".into()), "a write to a register");
    let values: Vec<Bytes> =
        subject.read_all(terms.log(3)).await.into_iter().map(|(_, value)| value).collect();
    let expected: Vec<Bytes> = (1..=50).map(|slot: u64| slot.to_string().into()).collect();
    subject.ensure_eq(values, expected, "a log");
    let large = subject.read_all(terms.log(6)).await;
    subject.ensure_eq(large[1].1.len(), terms.value_bytes_max, "the length of the large value");
    for (number, trimmed, last) in [(7, 9, 10), (8, 4, 6)] {
        let log = terms.log(number);
        let extent = Extent { trimmed: Slot(trimmed), last: Slot(last) };
        subject.ensure_eq(subject.extent(log).await, extent, "an extent");
        for slot in 1..=trimmed {
            let (written, _) = subject.write_one(log, Slot(slot), b"late").await;
            subject.ensure_eq(written, Written::Trimmed, &format!("a write to trimmed slot {slot}"));
        }
    }
}
