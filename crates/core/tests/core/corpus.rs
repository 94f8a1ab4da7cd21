//! Regression test over the fuzzer's corpora.

#[path = "../fuzzed/mod.rs"]
mod fuzzed;
#[path = "../../../../testing/fuzz/replay.rs"]
mod replay;

use crate::common::*;
use jeton_core::codec::Write;
use replay::Seeds;

/// A store with data of every kind.
fn full_world() -> World {
    let mut world = world();
    world.add(&uuid7(0, 1), 5);
    world.add(&OpId::Ulid(1_700_000_000_000 << 80 | 9), -5);
    world.add(&OpId::event("source", "id", 1_700_000_000_000).unwrap(), 1);
    world.add(&opaque("an opaque id"), 100);
    for seq in 1..4 {
        world.add(&sequenced("client", 7, seq), 0);
    }
    let changes = [
        within(1, Some(0), Some(10)),
        within(100, None, Some(10)),
        Change::Set(7),
        Change::Reset,
        put("bytes"),
        append(" and more"),
        Change::Expire(Some(1_700_000_100_000)),
        Change::Expire(None),
        Change::Check(Check::Present),
    ];
    for (change, number) in changes.into_iter().zip(2..) {
        world.change_row(&uuid7(1, number), "b", change);
    }
    world.change_row(&uuid7(1, 11), "c", Change::Check(Check::Absent));
    let changes = [
        (cell("b"), Change::Check(Check::Holds(bytes("bytes and more")))),
        (column("b", "f:second"), Change::Add(3)),
        (cell("b"), Change::Delete),
    ];
    world.batch(&uuid7(1, 12), &changes);
    let without_id = Operation::single(None, cell("a"), Change::Add(1)).unwrap();
    world.submit(&without_id);
    world
}

fn entries() -> Seeds {
    let ids = ["uuid7", "ulid", "event", "opaque"];
    let sequenced = ["first-of-client", "second-of-client", "third-of-client"];
    let changes = ["within", "refused", "set", "reset", "put", "append", "expire", "no-expiry"];
    let names = ids.into_iter().chain(sequenced).chain(changes);
    let names: Vec<_> = names.chain(["present", "absent", "batch", "without-id"]).collect();
    let mut world = full_world();
    assert_eq!(world.log.len(), names.len());
    let entries = world.log.iter().map(|(_, _, bytes)| bytes.clone());
    let mut seeds: Seeds = names.into_iter().zip(entries).collect();
    let mut value = Vec::new();
    bytes("text").lasting(Some(1)).encode(&mut value);
    seeds.push(("value", value));
    let mut answer = Vec::new();
    let key = world.store.answers.keys().min_by_key(|(_, key)| key.to_bytes()).copied().unwrap();
    world.store.answers[&key].encode(&mut answer);
    seeds.push(("answer", answer));
    seeds.push(("cell", column("row", "family:column").as_bytes().to_vec()));
    let partition = world.partition(&cell("a"));
    let session = partition.sessions().take_changed().remove(0).1.unwrap();
    seeds.push(("session", session));
    partition.sessions().forget_expired(at(1_000_000_000));
    seeds.push(("partition", partition.encode()));
    world.at(10_000).change(probabilistic(0.001));
    seeds.push(("catalogue", world.catalog.encode()));
    seeds
}

fn ids() -> Seeds {
    let event = OpId::event("source", "id/with/slashes", 1_700_000_000_000).unwrap();
    let shown = [
        ("uuid7", uuid7(0, 1)),
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
    replay::seeds("entry", &entries());
    replay::each("entry", fuzzed::entry);
}

#[test]
fn id_text_corpus() {
    replay::seeds("id", &ids());
    replay::each("id", fuzzed::id);
}

/// The time of its results would differ from that of its log position.
#[test]
fn an_entry_with_an_overflowing_time_is_refused() {
    let latest = u64::MAX / 1_000_000;
    for (millis, valid) in [(latest, true), (latest + 1, false), (u64::MAX, false)] {
        let mut bytes = vec![2];
        bytes.put_varint(millis);
        assert_eq!(Entry::read(1, &bytes).is_ok(), valid, "{millis}");
    }
}
