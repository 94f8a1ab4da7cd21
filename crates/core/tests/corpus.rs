//! Regression test over the fuzzer's corpora.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod recompute;

use common::{World, at, cell, minted, opaque, sequenced, settings, within};
use jeton_core::codec::Write;
use jeton_core::{Change, Check, Entry, OpId, Operation, Value};

/// A store with data of every kind.
fn world() -> World {
    let mut world = World::new(settings());
    world.add(&minted(0, 1), 5);
    world.add(&OpId::Ulid(1_700_000_000_000 << 80 | 9), -5);
    world.add(&OpId::event("source", "id", 1_700_000_000_000).unwrap(), 1);
    world.add(&opaque("an opaque id"), 100);
    for seq in 1..4 {
        world.add(&sequenced("client", 7, seq), 0);
    }
    world.change_row(&minted(1, 2), "b", within(1, Some(0), Some(10)));
    world.change_row(&minted(1, 3), "b", within(100, None, Some(10)));
    world.change_row(&minted(1, 4), "b", Change::Set(7));
    world.change_row(&minted(1, 5), "b", Change::Reset);
    world.change_row(&minted(1, 6), "b", Change::Put((*b"bytes").into()));
    world.change_row(&minted(1, 7), "b", Change::Append((*b" and more").into()));
    world.change_row(&minted(1, 8), "b", Change::Expire(Some(1_700_000_100_000)));
    world.change_row(&minted(1, 9), "b", Change::Expire(None));
    world.change_row(&minted(1, 10), "b", Change::Check(Check::Present));
    world.change_row(&minted(1, 11), "c", Change::Check(Check::Absent));
    let held = Value::Bytes((*b"bytes and more").into());
    world.batch(
        &minted(1, 12),
        &[
            (cell("b"), Change::Check(Check::Holds(held))),
            (common::column("b", "f:second"), Change::Add(3)),
            (cell("b"), Change::Delete),
        ],
    );
    let without_id = Operation::single(None, cell("a"), Change::Add(1)).unwrap();
    world.submit(&without_id);
    world
}

fn entries() -> recompute::Seeds {
    let names = [
        "uuid7",
        "ulid",
        "event",
        "opaque",
        "first-of-client",
        "second-of-client",
        "third-of-client",
        "within",
        "refused",
        "set",
        "reset",
        "put",
        "append",
        "expire",
        "for-ever",
        "present",
        "absent",
        "batch",
        "without-id",
    ];
    let mut world = world();
    assert_eq!(world.log.len(), names.len());
    let entries = world.log.iter().map(|(_, _, bytes)| bytes.clone());
    let mut seeds: recompute::Seeds = names.into_iter().zip(entries).collect();
    let mut value = Vec::new();
    Value::Bytes((*b"text").into()).lasting(Some(1)).encode(&mut value);
    seeds.push(("value", value));
    let mut answer = Vec::new();
    let key = world.store.answers.keys().min_by_key(|(_, key)| key.to_bytes()).copied().unwrap();
    world.store.answers[&key].encode(&mut answer);
    seeds.push(("answer", answer));
    seeds.push(("cell", common::column("row", "family:column").as_bytes().to_vec()));
    let partition = world.partition(&cell("a"));
    let session = partition.sessions().take_changed().remove(0).1.unwrap();
    seeds.push(("session", session));
    partition.sessions().forget_idle(at(1_000_000_000));
    seeds.push(("partition", partition.encode()));
    world.at(10_000).change(common::probabilistic(0.001));
    seeds.push(("catalogue", world.catalog.encode()));
    seeds
}

fn ids() -> recompute::Seeds {
    let event = OpId::event("source", "id/with/slashes", 1_700_000_000_000).unwrap();
    let shown = [
        ("uuid7", minted(0, 1)),
        ("ulid", OpId::Ulid(1_700_000_000_000 << 80 | 9)),
        ("sequenced", sequenced("client/of/a/path", 7, 3)),
        ("event", event),
        ("opaque", opaque("an opaque id")),
    ];
    let plain = shown.iter().map(|(name, id)| (*name, id.to_string().into_bytes()));
    let names = ["tagged-uuid7", "tagged-ulid", "tagged-sequenced", "tagged-event", "tagged-opaque"];
    let tagged = names.into_iter().zip(&shown);
    let tagged = tagged.map(|(name, (format, id))| (name, format!("{format}:{id}").into_bytes()));
    plain.chain(tagged).collect()
}

#[test]
fn log_entry_corpus() {
    recompute::seeds("entry", &entries());
    recompute::each("entry", fuzzed::entry);
}

#[test]
fn id_text_corpus() {
    recompute::seeds("id", &ids());
    recompute::each("id", fuzzed::id);
}

/// Its results would have another time than its log position, and would be encoded with that.
#[test]
fn an_entry_with_an_overflowing_time_is_refused() {
    let entry = |millis: u64| {
        let mut bytes = vec![2];
        bytes.put_varint(millis);
        bytes
    };
    let latest = u64::MAX / 1_000_000;
    assert!(Entry::read(1, &entry(latest)).is_ok());
    assert!(Entry::read(1, &entry(latest + 1)).is_err());
    assert!(Entry::read(1, &entry(u64::MAX)).is_err());
}
