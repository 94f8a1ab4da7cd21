//! Outcomes of operations: the cases that the README and the API promise.

use crate::common::*;

/// The window on the store's clock, which may gain an eighth on real time.
const DRIFTED_WINDOW: u64 = WINDOW + WINDOW / 8;

/// An id of each format, dated at the start of the world.
fn one_of_each() -> [OpId; 5] {
    [
        uuid7(0, 1),
        OpId::Ulid(u128::from(START) << 80 | 1),
        sequenced("till", 1, 1),
        OpId::event("till", "1", START).unwrap(),
        opaque("order-1"),
    ]
}

#[test]
fn an_id_is_applied_once_and_a_retry_gets_the_first_result() {
    for id in one_of_each() {
        let mut world = world();
        let operation = Operation::single(Some(id.clone()), cell("a"), Change::Add(5)).unwrap();
        let decided = world.at(7).decide(&operation);
        assert_eq!((&world.decide(&operation), &world.store), (&decided, &Store::default()), "read-only");
        let first = world.submit(&operation).fresh().answer;
        assert_eq!((first.applied, first.values.as_slice()), (true, &[Some(5)][..]));
        assert_eq!((first.slot, first.millis, world.counter("a")), (1, START + 7, 5));
        // Again in the same step.
        let partition = &world.partitions[&operation.partition()];
        let step = LogPosition { slot: partition.slot(), time: partition.time() };
        let table = world.catalog.get(TABLE).unwrap();
        let Ok(again) = partition.decide(step, table, &operation, hashes(&operation), &mut world.store);
        assert_eq!(again, Verdict::Replay(first.clone()));
        // After later changes.
        world.at(10).add(&opaque("another"), 100).applied();
        assert_eq!(world.at(20).add(&id, 5).replayed(), first, "{id}");
        assert_eq!(world.counter("a"), 105);
    }
}

#[test]
fn an_id_names_one_operation() {
    for id in one_of_each() {
        let mut world = world();
        let cell = column("a", "f:q");
        world.change_cell(&id, &cell, within(5, Some(0), Some(10))).applied();
        for (other, change) in [
            (&cell, within(6, Some(0), Some(10))),
            (&cell, within(5, Some(1), Some(10))),
            (&cell, within(5, Some(0), Some(11))),
            (&cell, within(5, Some(0), None)),
            (&cell, within(5, None, Some(10))),
            (&cell, Change::Add(5)),
            (&cell, Change::Set(5)),
            (&cell, Change::Reset),
            (&cell, Change::Delete),
            (&cell, Change::Put([5].into())),
            (&column("a", "f:r"), within(5, Some(0), Some(10))),
        ] {
            let verdict = world.change_cell(&id, other, change.clone());
            assert_eq!(verdict.rejected(), Rejection::Mismatch, "{id}: {change:?}");
        }
        let same = (cell.clone(), within(5, Some(0), Some(10)));
        assert_eq!(world.batch(&id, &[same.clone(), same]).rejected(), Rejection::Mismatch);
        assert_eq!(world.store.values[&cell], Value::Counter(5));
    }
}

#[test]
fn a_bounds_refusal_is_permanent() {
    for id in one_of_each() {
        let mut world = world();
        world.add(&opaque("deposit"), 3).applied();
        let take = within(-5, Some(0), None);
        assert_eq!(world.change_row(&id, "a", take.clone()).refused(), [Some(3)], "{id}");
        assert_eq!(world.counter("a"), 3);
        world.add(&opaque("more"), 100).applied();
        let again = world.change_row(&id, "a", take).replayed();
        assert!(!again.applied);
        assert_eq!(again.values.as_slice(), [Some(3)]);
        assert_eq!(world.change_row(&id, "a", Change::Add(-5)).rejected(), Rejection::Mismatch);
        assert_eq!(world.counter("a"), 103);
    }
}

#[test]
fn a_dated_id_expires_right_after_its_window() {
    for id in one_of_each().into_iter().filter(|id| id.dated().is_some()) {
        let mut world = world();
        let first = world.add(&id, 5).fresh().answer;
        assert_eq!(world.at(WINDOW).add(&id, 5).replayed(), first);
        // A new id is accepted to the end of the window.
        world.add(&uuid7(0, 2), 1).applied();
        for later in [WINDOW + 1, WINDOW * 1000] {
            let expired = Rejection::Expired { window: ms(WINDOW), now: at(later) };
            for id in [&id, &uuid7(0, 3)] {
                assert_eq!(world.at(later).add(id, 5).rejected(), expired);
            }
        }
        assert_eq!(world.counter("a"), 6);
    }
}

#[test]
fn an_id_from_the_future_is_accepted_up_to_the_skew() {
    let mut world = world();
    world.add(&uuid7(SKEW, 1), 1).applied();
    let rejection = world.add(&uuid7(SKEW + 1, 2), 1).rejected();
    assert_eq!(rejection, Rejection::FromFuture { ahead: ms(SKEW + 1), skew: ms(SKEW), now: at(0) });
    // Nothing was recorded: within the skew the same id counts.
    world.at(1).add(&uuid7(SKEW + 1, 2), 1).applied();
    assert_eq!(world.counter("a"), 2);
    // The id from the future is recorded as long as others.
    world.at(SKEW + WINDOW).add(&uuid7(SKEW, 1), 1).replayed();
}

#[test]
fn partition_time_is_in_whole_milliseconds_and_never_goes_back() {
    let mut world = world();
    world.now = Timestamp::from_nanos(at(0).as_nanos() + 999_999);
    assert_eq!(world.add(&opaque("a"), 1).fresh().answer.millis, START);
    assert_eq!(world.partition(&cell("a")).time(), at(0));
    world.at(WINDOW + 1).add(&opaque("later"), 1).applied();
    assert!(matches!(world.at(0).add(&uuid7(0, 1), 1).rejected(), Rejection::Expired { .. }));
    assert_eq!(world.partition(&cell("a")).time(), at(WINDOW + 1));
}

#[test]
fn a_write_without_an_id_follows_the_table_policy() {
    let plain = Operation::single(None, cell("a"), Change::Add(1)).unwrap();
    let mut strict = World::new(TableSettings { without_id: MissingIdPolicy::Refuse, ..settings() });
    assert_eq!(strict.submit(&plain).rejected(), Rejection::IdRequired);
    let mut lax = world();
    assert_eq!(lax.submit(&plain).fresh().memory, DedupLocation::None);
    // A retry is another write.
    assert_eq!(lax.submit(&plain).applied(), 2);
    assert!(lax.store.answers.is_empty());
}

#[test]
fn an_id_of_another_format_is_refused() {
    for id in one_of_each() {
        let others = Format::ALL.into_iter().filter(|format| *format != id.format());
        let taken = others.fold(Formats::NONE, Formats::and);
        let mut world = World::new(TableSettings { formats: taken, ..settings() });
        let refused = Rejection::FormatNotTaken { found: id.format(), taken };
        assert_eq!(world.add(&id, 1).rejected(), refused);
        assert!(world.store.values.is_empty());
    }
}

#[test]
fn overflow_changes_and_records_nothing() {
    for (start, step, back) in [(i64::MAX, 1, -1), (i64::MIN, -1, 1)] {
        for id in one_of_each() {
            let mut world = world();
            world.change_row(&opaque("start"), "a", Change::Set(start)).applied();
            assert_eq!(world.add(&id, step).rejected(), Rejection::Overflow);
            assert_eq!(world.counter("a"), start);
            world.add(&opaque("back"), back).applied();
            assert_eq!(world.add(&id, step).applied(), start, "the same id can be used again");
        }
    }
}

#[test]
fn adding_to_bytes_is_refused() {
    let mut world = world();
    world.change_row(&opaque("put"), "a", put("text")).fresh();
    for (number, change) in [(1, Change::Add(1)), (2, within(1, None, None))] {
        let verdict = world.change_row(&uuid7(0, number), "a", change);
        assert_eq!(verdict.rejected(), Rejection::NotACounter);
    }
    assert_eq!(world.value("a"), Some(bytes("text")));
    // Nothing was recorded: with a counter in its place the same id counts.
    world.change_row(&opaque("reset"), "a", Change::Reset).applied();
    world.add(&uuid7(0, 1), 1).applied();
}

#[test]
fn set_reset_delete_and_put() {
    let mut world = world();
    assert_eq!(world.change_row(&opaque("1"), "a", Change::Set(-9)).applied(), -9);
    assert_eq!(world.add(&opaque("2"), 1).applied(), -8);
    assert_eq!(world.change_row(&opaque("3"), "a", Change::Reset).applied(), 0);
    assert_eq!(world.value("a"), Some(Value::Counter(0)));
    for (id, change, value) in [("4", put("x"), Some(bytes("x"))), ("5", Change::Delete, None)] {
        let answer = world.change_row(&opaque(id), "a", change).fresh().answer;
        assert_eq!((answer.applied, answer.values.as_slice()), (true, &[None][..]));
        assert_eq!(world.value("a"), value);
    }
    assert_eq!(world.add(&opaque("6"), 2).applied(), 2, "an empty cell is a counter at zero");
    world.change_row(&opaque("1"), "a", Change::Set(-9)).replayed();
    world.change_row(&opaque("5"), "a", Change::Delete).replayed();
    assert_eq!(world.counter("a"), 2);
}

#[test]
fn bounds_are_inclusive() {
    for (delta, min, max, fits) in [
        (5, None, Some(5), true),
        (6, None, Some(5), false),
        (-5, Some(-5), None, true),
        (-6, Some(-5), None, false),
        (3, Some(3), Some(3), true),
        (2, Some(3), Some(3), false),
        (4, Some(3), Some(3), false),
        (i64::MAX, None, Some(i64::MAX), true),
        (i64::MIN, Some(i64::MIN), None, true),
        (1, None, None, true),
    ] {
        let answer = world().change_row(&opaque("1"), "a", within(delta, min, max)).fresh().answer;
        assert_eq!(answer.applied, fits, "{delta} within {min:?} and {max:?}");
    }
}

#[test]
fn an_overflowing_sum_violates_the_bound_on_its_side() {
    for (start, delta, min, max, refused) in [
        (i64::MAX, 1, None, Some(i64::MAX), true),
        (i64::MAX, 1, Some(0), None, false),
        (i64::MAX, i64::MAX, Some(i64::MIN), Some(i64::MAX), true),
        (i64::MIN, -1, Some(i64::MIN), None, true),
        (i64::MIN, -1, None, Some(0), false),
        (i64::MIN, i64::MIN, Some(0), Some(0), true),
    ] {
        let mut world = world();
        world.change_row(&opaque("start"), "a", Change::Set(start)).applied();
        let verdict = world.change_row(&opaque("1"), "a", within(delta, min, max));
        if refused {
            assert_eq!(verdict.refused(), [Some(start)]);
        } else {
            assert_eq!(verdict.rejected(), Rejection::Overflow);
        }
        assert_eq!(world.counter("a"), start);
    }
}

#[test]
fn changes_of_several_routing_keys_or_tables_are_refused() {
    let here = cell("0");
    let add_to = |cells: [Cell; 2]| Operation::batch(None, cells.map(|cell| (cell, Change::Add(1))).to_vec());
    // Whether they share a partition or not.
    for there in [apart().1, together(2)[1].clone()] {
        let error = add_to([here.clone(), there]).unwrap_err();
        assert_eq!(error, OperationError::SeveralRoutingKeys);
        let why = error.to_string();
        assert!(why.contains("hash tag, as {user7}spent") && why.contains("transaction"), "{why}");
    }
    assert!(add_to([cell("{a}0"), cell("1{a}")]).is_ok());

    let elsewhere = (1..)
        .map(|n: u32| Cell::new(&SECRET, TableId(2), &n.to_be_bytes(), &Column::unnamed()).unwrap())
        .find(|cell| cell.partition() == here.partition());
    let error = add_to([here, elsewhere.unwrap()]).unwrap_err();
    assert_eq!(error, OperationError::SeveralTables);
    assert!(error.to_string().contains("one table"), "{error}");
}

#[test]
fn operations_have_limits() {
    let put = |bytes: usize| (cell("a"), Change::Put(vec![0; bytes].into()));
    let single = |(cell, change)| Operation::single(None, cell, change);
    assert!(single(put(CELL_BYTES_MAX)).is_ok());
    assert_eq!(single(put(CELL_BYTES_MAX + 1)), Err(OperationError::CellTooLarge(CELL_BYTES_MAX + 1)));

    let adds = |count| Operation::batch(None, vec![(cell("a"), Change::Add(1)); count]);
    assert_eq!(adds(CHANGES_MAX).map(|operation| operation.len()), Ok(CHANGES_MAX));
    assert_eq!(adds(CHANGES_MAX + 1), Err(OperationError::TooManyChanges(CHANGES_MAX + 1)));
    assert_eq!(adds(0), Err(OperationError::Empty));

    let count = OPERATION_BYTES_MAX.div_ceil(CELL_BYTES_MAX);
    assert!(Operation::batch(None, vec![put(CELL_BYTES_MAX); count - 1]).is_ok());
    assert!(matches!(
        Operation::batch(None, vec![put(CELL_BYTES_MAX); count]),
        Err(OperationError::TooLarge(size)) if size > OPERATION_BYTES_MAX
    ));

    assert!(Operation::single(None, cell("a"), within(0, Some(1), Some(1))).is_ok());
    let crossed = OperationError::BoundsCrossed { min: 2, max: 1 };
    assert_eq!(Operation::single(None, cell("a"), within(0, Some(2), Some(1))), Err(crossed));
}

#[test]
fn an_id_beyond_its_limits_is_refused() {
    let long: Box<str> = "x".repeat(ID_BYTES_MAX + 1).into();
    for id in [
        OpId::Uuid7(0),
        OpId::Sequenced { client: "".into(), epoch: 1, seq: 1 },
        OpId::Sequenced { client: "c".repeat(CLIENT_BYTES_MAX + 1).into(), epoch: 1, seq: 1 },
        OpId::Sequenced { client: "c".into(), epoch: 1, seq: 0 },
        OpId::Event { source: long.clone(), id: "i".into(), millis: 1 },
        OpId::Event { source: "s".into(), id: long, millis: 1 },
        OpId::Event { source: "s".into(), id: "".into(), millis: 1 },
        OpId::Opaque([].into()),
        OpId::Opaque([0; ID_BYTES_MAX + 1].into()),
    ] {
        let operation = Operation::single(Some(id.clone()), cell("a"), Change::Reset);
        assert!(matches!(operation, Err(OperationError::Id(_))), "{id:?}");
    }
}

#[test]
fn an_id_counts_once_in_each_table() {
    // The same id in two tables is two ids with different keys.
    let id = uuid7(0, 1);
    let operation = |table: u32| {
        let cell = Cell::new(&SECRET, TableId(table), b"a", &Column::unnamed()).unwrap();
        Operation::single(Some(id.clone()), cell, Change::Add(1)).unwrap()
    };
    let (one, two) = (hashes(&operation(1)), hashes(&operation(2)));
    assert!(one.key != two.key && one.payload != two.payload);
}

/// A client error that is not detected; but each partition records its own result, so a retry still gets its
/// first result.
#[test]
fn an_id_in_two_partitions_is_recorded_in_each() {
    let mut world = world();
    let (here, there) = apart();
    let first = world.change_cell(&uuid7(0, 1), &here, Change::Add(1)).fresh().answer;
    world.change_cell(&uuid7(0, 1), &there, Change::Add(2)).applied();
    assert_eq!(world.change_cell(&uuid7(0, 1), &here, Change::Add(1)).replayed(), first);
}

#[test]
fn a_record_is_kept_until_no_retry_can_need_it() {
    let mut world = world();
    for (number, millis) in [0, 1, 127, 4_095, 4_096, 59_999].into_iter().enumerate() {
        let (dated, opaque) = (uuid7(millis, number as u64), opaque(&format!("order-{number}")));
        for (id, window) in [(dated, WINDOW), (opaque, DRIFTED_WINDOW)] {
            let memory = world.at(millis).add(&id, 1).fresh().memory;
            let DedupLocation::Index { generation, .. } = memory else { panic!("{id}: {memory:?}") };
            let needed = START + millis + window;
            assert!(generation.0 >= needed, "{id} expires {} ms early", needed - generation.0);
            assert!(generation.0 < needed + WINDOW / 8, "{id} is recorded for too long");
        }
    }
}

/// In any millisecond, also one in which a generation ends: a store that drops expired generations to the
/// millisecond still has the record.
#[test]
fn dropping_expired_generations_loses_no_record() {
    let mut world = world();
    let span = 4_200;
    for millis in 0..span {
        world.at(millis).add(&uuid7(millis, millis), 1).applied();
        world.add(&opaque(&millis.to_string()), 1).applied();
    }
    for millis in 0..span {
        world.at(millis + WINDOW).store.forget(at(millis + WINDOW));
        world.add(&uuid7(millis, millis), 1).replayed();
    }
    for millis in 0..span {
        world.at(millis + DRIFTED_WINDOW).store.forget(at(millis + DRIFTED_WINDOW));
        world.add(&opaque(&millis.to_string()), 1).replayed();
    }
}

#[test]
fn an_opaque_id_can_be_reused_after_its_window() {
    let mut world = world();
    let first = world.add(&opaque("order-1"), 1).fresh().answer;
    world.at(DRIFTED_WINDOW).store.forget(at(DRIFTED_WINDOW));
    assert_eq!(world.add(&opaque("order-1"), 1).replayed(), first);
    world.at(DRIFTED_WINDOW + 3 * SLACK).tidy();
    assert_eq!(world.add(&opaque("order-1"), 1).applied(), 2);
}

/// One partition is behind the others of its table: their time must not make its retries new.
#[test]
fn a_lagging_partition_refuses_rather_than_counts_twice() {
    let mut world = world();
    let (here, there) = apart();
    world.change_cell(&uuid7(0, 1), &here, Change::Add(1)).applied();
    world.at(10 * WINDOW).change_cell(&uuid7(10 * WINDOW, 2), &there, Change::Add(1)).applied();
    world.tidy();
    let late = world.at(1).change_cell(&uuid7(0, 1), &here, Change::Add(1));
    assert!(matches!(late.rejected(), Rejection::Expired { .. }));
}
