//! Checks with one caller.

use bytes::Bytes;

use super::EngineLimits;
use super::harness::EngineUnderTest;
use crate::{Batch, Extent, Registers, Slot, WriteResult};

pub async fn takes_one_value<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(0);
    engine.ensure_eq(engine.extent(log).await, Extent::default(), "the extent of an empty log");
    engine.ensure_eq(engine.read(log, Slot(1), 10).await, Ok(Vec::new()), "a read of an empty log");
    engine.write_fresh(log, Slot(1), b"first").await;
    // An equal value, too: only one writer gets `Fresh`.
    for value in ["second", "first", ""] {
        let (written, _) = engine.write_one(log, Slot(1), value.as_bytes()).await;
        engine.ensure_eq(written, WriteResult::Taken("first".into()), "a later write");
    }
    let all = vec![(Slot(1), Bytes::from("first"))];
    engine.ensure_eq(engine.read(log, Slot(1), 10).await, Ok(all), "a read");
    let extent = Extent { trimmed: Slot::ZERO, last: Slot(1) };
    engine.ensure_eq(engine.extent(log).await, extent, "the extent");
}

pub async fn twice_in_a_batch<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(1);
    let mut batch = Batch::new();
    batch.push(log, Slot(1), b"one");
    batch.push(log, Slot(1), b"other");
    batch.push(log, Slot(2), b"two");
    let outcome = engine.write(&batch).await;
    let one = WriteResult::Taken("one".into());
    let fresh = [WriteResult::Fresh, one.clone(), WriteResult::Fresh];
    let again = [one.clone(), one, WriteResult::Taken("two".into())];
    let good = outcome.written == fresh || outcome.uncertain && outcome.written == again;
    engine.ensure(good, || format!("got {:?}", outcome.written));
}

pub async fn learns_an_outcome<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(2);
    for slot in (1..=20).map(Slot) {
        engine.write_and_drop(log, slot, b"mine");
        let (written, _) = engine.write_one(log, slot, b"mine").await;
        let mine = [WriteResult::Fresh, WriteResult::Taken("mine".into())].contains(&written);
        engine.ensure(mine, || format!("slot {slot}: got {written:?}"));
        let (written, _) = engine.write_one(log, slot, b"yours").await;
        engine.ensure_eq(written, WriteResult::Taken("mine".into()), "a write by another");
    }
}

pub async fn reads_ranges<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(3);
    let mut batch = Batch::new();
    for slot in 1..=50u64 {
        batch.push(log, Slot(slot), slot.to_string().as_bytes());
        // Interleaved with another log.
        batch.push(limits.log(4), Slot(slot), b"between");
    }
    engine.write(&batch).await;
    let expected = |from: u64, to: u64| -> Vec<(Slot, Bytes)> {
        (from..=to).map(|slot| (Slot(slot), slot.to_string().into())).collect()
    };
    for (from, limit, to) in [(1, 1, 1), (1, 50, 50), (1, 1000, 50), (20, 7, 26), (50, 7, 50), (51, 7, 50)] {
        let got = engine.read(log, Slot(from), limit).await;
        engine.ensure_eq(got, Ok(expected(from, to)), &format!("a read from {from}, at most {limit}"));
    }
    engine.ensure_eq(engine.read(log, Slot(1), 0).await, Ok(Vec::new()), "a read of nothing");
    engine.ensure_eq(engine.read_all(log).await, expected(1, 50), "a read in parts");
}

pub async fn leaves_gaps_out<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(5);
    engine.write_fresh(log, Slot(10), b"ten").await;
    engine.write_fresh(log, Slot(3), b"three").await;
    let there = vec![(Slot(3), Bytes::from("three")), (Slot(10), "ten".into())];
    engine.ensure_eq(engine.read(log, Slot(1), 10).await, Ok(there), "a read across gaps");
    let rest = vec![(Slot(10), Bytes::from("ten"))];
    engine.ensure_eq(engine.read(log, Slot(4), 10).await, Ok(rest), "a read that begins in a gap");
    engine.write_fresh(log, Slot(5), b"five").await;
    let slots: Vec<Slot> = engine.read_all(log).await.into_iter().map(|(slot, _)| slot).collect();
    engine.ensure_eq(slots, vec![Slot(3), Slot(5), Slot(10)], "the slots after filling a gap");
    engine.ensure_eq(engine.extent(log).await.last, Slot(10), "the last slot");
}

pub async fn keeps_values_whole<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(6);
    let large: Vec<u8> = (0..limits.value_bytes_max).map(|index| (index % 251) as u8).collect();
    engine.write_fresh(log, Slot(1), b"").await;
    engine.write_fresh(log, Slot(2), &large).await;
    engine.write_fresh(log, Slot(3), b"").await;
    let all = engine.read_all(log).await;
    let lens: Vec<usize> = all.iter().map(|(_, value)| value.len()).collect();
    engine.ensure_eq(lens, vec![0, large.len(), 0], "the lengths of the values");
    engine.ensure(all[1].1 == large, || "the large value is not what was written".into());
    let (written, _) = engine.write_one(log, Slot(1), b"x").await;
    engine.ensure_eq(written, WriteResult::Taken(Bytes::new()), "a write to a register that holds nothing");
}

pub async fn stays_written<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(7);
    for slot in [1, 2, 4, 5, 6] {
        engine.write_fresh(log, Slot(slot), b"value").await;
    }
    engine.trim(log, Slot(4)).await;
    let extent = Extent { trimmed: Slot(4), last: Slot(6) };
    engine.ensure_eq(engine.extent(log).await, extent, "the extent");
    // Slot 3 was never written and must be refused, too.
    for slot in 1..=4 {
        let (written, _) = engine.write_one(log, Slot(slot), b"late").await;
        engine.ensure_eq(written, WriteResult::Trimmed, &format!("a write to trimmed slot {slot}"));
        let read = engine.read(log, Slot(slot), 10).await;
        engine.ensure_eq(read, Err(Slot(4)), &format!("a read from trimmed slot {slot}"));
    }
    let (written, _) = engine.write_one(log, Slot(5), b"late").await;
    engine.ensure_eq(written, WriteResult::Taken("value".into()), "a write above the trim point");
    let slots: Vec<Slot> = engine.read_all(log).await.into_iter().map(|(slot, _)| slot).collect();
    engine.ensure_eq(slots, vec![Slot(5), Slot(6)], "what is left");

    // Beyond the last slot.
    engine.trim(log, Slot(9)).await;
    let extent = Extent { trimmed: Slot(9), last: Slot(6) };
    engine.ensure_eq(engine.extent(log).await, extent, "the extent of a log without values");
    let (written, _) = engine.write_one(log, Slot(9), b"late").await;
    engine.ensure_eq(written, WriteResult::Trimmed, "a write to a slot trimmed before it was written");
    engine.write_fresh(log, Slot(10), b"next").await;
}

pub async fn trims_upwards<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(8);
    for slot in 1..=6 {
        engine.write_fresh(log, Slot(slot), b"value").await;
    }
    for through in [4, 2, 0, 4] {
        engine.trim(log, Slot(through)).await;
        let extent = Extent { trimmed: Slot(4), last: Slot(6) };
        engine.ensure_eq(engine.extent(log).await, extent, &format!("the extent after a trim to {through}"));
        let (written, _) = engine.write_one(log, Slot(3), b"late").await;
        engine.ensure_eq(written, WriteResult::Trimmed, &format!("a write after a trim to {through}"));
    }
}

/// The state after the checks before.
pub async fn survive_restart<R: Registers>(engine: &EngineUnderTest<R>, limits: &EngineLimits) {
    let log = limits.log(0);
    let (written, _) = engine.write_one(log, Slot(1), b"again").await;
    engine.ensure_eq(written, WriteResult::Taken("first".into()), "a write to a register");
    let values: Vec<Bytes> =
        engine.read_all(limits.log(3)).await.into_iter().map(|(_, value)| value).collect();
    let expected: Vec<Bytes> = (1..=50).map(|slot: u64| slot.to_string().into()).collect();
    engine.ensure_eq(values, expected, "a log");
    let large = engine.read_all(limits.log(6)).await;
    engine.ensure_eq(large[1].1.len(), limits.value_bytes_max, "the length of the large value");
    for (number, trimmed, last) in [(7, 9, 10), (8, 4, 6)] {
        let log = limits.log(number);
        let extent = Extent { trimmed: Slot(trimmed), last: Slot(last) };
        engine.ensure_eq(engine.extent(log).await, extent, "an extent");
        for slot in 1..=trimmed {
            let (written, _) = engine.write_one(log, Slot(slot), b"late").await;
            engine.ensure_eq(written, WriteResult::Trimmed, &format!("a write to trimmed slot {slot}"));
        }
    }
}
