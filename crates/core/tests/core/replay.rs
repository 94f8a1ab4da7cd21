//! Replay: the log restores the state, and entries that contradict the state are errors.

use crate::common::*;

/// An operation on few cells, with an id that may have been used before.
fn any_request() -> impl Strategy<Value = (OpId, Vec<(Cell, Change)>, u64)> {
    let id = prop_oneof![
        (0..50u64).prop_map(|number| uuid7(number * 1_000, number)),
        (0..50u64).prop_map(|number| OpId::Ulid(u128::from(START + number * 1_000) << 80 | 1)),
        ("[01]", 0..3u64, 1..300u64).prop_map(|(client, epoch, seq)| sequenced(&client, epoch, seq)),
        (0..50u64).prop_map(|n| OpId::event("till", &n.to_string(), START + n * 1_000).unwrap()),
        (0..50u64).prop_map(|number| opaque(&number.to_string())),
    ];
    let change = prop_oneof![
        (-9..9i64).prop_map(Change::Add),
        (-9..9i64).prop_map(|delta| within(delta, Some(-5), Some(5))),
        Just(Change::Reset),
        Just(Change::Delete),
        Just(put("x")),
        Just(append("1")),
        prop::option::of(START..START + 20_000).prop_map(Change::Expire),
        Just(Change::Check(Check::Present)),
    ];
    let changes = (0..3u8, prop::collection::vec(change, 1..3)).prop_map(|(row, changes)| {
        changes.into_iter().map(|change| (cell(&row.to_string()), change)).collect()
    });
    (id, changes, prop_oneof![0..50u64, 0..20_000u64])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The state is a fold of the log: a replay, from the beginning or from a checkpoint, gives the same
    /// partitions, values and results, and the same answer to every retry.
    #[test]
    fn replay_restores_the_state(
        requests in prop::collection::vec(any_request(), 1..60),
        checkpoint: prop::sample::Index,
        change: prop::sample::Index,
    ) {
        let mut world = world();
        let (checkpoint, change) = (checkpoint.index(requests.len()), change.index(requests.len()));
        let mut millis = 0;
        for (number, (id, changes, wait)) in requests.iter().enumerate() {
            millis += wait;
            world.at(millis);
            world.batch(id, changes);
            if number == checkpoint {
                world.checkpoint();
            }
            if number == change {
                world.change(TableSettings { dated_window: ms(600_000), opaque_window: ms(10), ..settings() });
            }
        }
        for mut other in [world.replayed(), world.recovered()] {
            for partition in world.partitions.values_mut().chain(other.partitions.values_mut()) {
                // Which rows are out of date is not part of the state.
                partition.sessions().take_changed();
            }
            // A replay creates no empty partitions.
            world.partitions.retain(|_, partition| partition.slot() > 0);
            other.partitions.retain(|_, partition| partition.slot() > 0);
            prop_assert_eq!(&other.partitions, &world.partitions);
            prop_assert_eq!(&other.store, &world.store);
            for (id, changes, _) in &requests {
                let operation = Operation::batch(Some(id.clone()), changes.clone()).unwrap();
                let verdict = world.decide(&operation);
                prop_assert_eq!(&other.decide(&operation), &verdict);
                if let Verdict::Fresh(decision) = verdict {
                    prop_assert!(decision.answer.slot > 0);
                }
            }
        }
    }
}

/// Replays entries of the partition of row "a", in slots 1, 2, ...: the error of the last one.
fn replay_error(log: &[(u64, Operation, DedupLocation)]) -> Option<ReplayError> {
    let world = World::new(TableSettings { formats: Formats::only(Format::Opaque), ..settings() });
    let (mut partition, mut store) = (Partition::new(cell("a").partition()), Store::default());
    let mut last = None;
    for ((millis, operation, memory), slot) in log.iter().zip(1..) {
        assert_eq!(last, None, "an entry before the last is refused");
        let position = LogPosition { slot, time: Timestamp::from_millis(*millis) };
        let answer = OperationResult { applied: true, slot, millis: *millis, values: Values::One(Some(1)) };
        let decision = OperationDecision { answer, memory: *memory, effects: None };
        let applied = partition.advance(position).and_then(|()| {
            partition.apply(world.table(), operation, hashes(operation), &decision, &mut store)
        });
        last = applied.err();
    }
    last
}

#[test]
fn entries_that_contradict_the_state_are_errors() {
    let add = |row: &str, id| Operation::single(Some(id), cell(row), Change::Add(1)).unwrap();
    let index = |era| DedupLocation::Index { era, generation: Generation(9_000) };
    let session = DedupLocation::Session { lease: ms(60_000) };
    let filter = DedupLocation::Filter { era: 1 };
    let other = ["b", "c", "d"].into_iter().find(|row| cell(row).partition() != cell("a").partition());
    let other = other.unwrap();
    let first = (5_000, add("a", opaque("1")), index(1));
    assert_eq!(replay_error(std::slice::from_ref(&first)), None);
    for (entry, error) in [
        ((4_999, add("a", opaque("2")), index(1)), ReplayError::Time { last: 5_000, found: 4_999 }),
        (
            (5_000, add("a", opaque("2")), index(2)),
            ReplayError::UnknownEra { table: TABLE, era: 2, newest: 1 },
        ),
        (
            (5_000, add("a", uuid7(0, 1)), filter),
            ReplayError::Format { table: TABLE, era: 1, format: Format::Uuid7 },
        ),
        ((5_000, add(other, opaque("2")), index(1)), ReplayError::OtherPartition(cell(other).partition())),
    ] {
        assert_eq!(replay_error(&[first.clone(), entry]), Some(error));
    }
    let epoch = |epoch| (5_000, add("a", sequenced("till", epoch, 1)), session);
    assert_eq!(replay_error(&[epoch(7), epoch(6)]), Some(ReplayError::EndedEpoch { epoch: 6, current: 7 }));
}
