//! Branches of transactions: prepare, commit, abort, and their effect on other writes to the same counters.

use std::collections::BTreeMap;

use BranchOutcome::{Abort, Commit};

use crate::common::*;

fn name(text: &str) -> BranchName {
    BranchName::new(text.as_bytes()).unwrap()
}

/// The counters of these tests: in one row, so in one partition.
fn counter(number: u8) -> Cell {
    column("row", &format!("f:{number}"))
}

fn adding(cell: Cell, delta: i64) -> Addition {
    Addition { cell, delta, min: None, max: None }
}

fn branch(of: &str, additions: &[Addition]) -> Branch {
    Branch::new(name(of), additions.to_vec(), Vec::new()).unwrap()
}

fn prepare(world: &mut World, branch: &Branch) -> BranchVerdict {
    world.prepare(branch, &counter(0))
}

fn finish(world: &mut World, of: &str, outcome: BranchOutcome) -> BranchVerdict {
    world.finish(&name(of), &counter(0), outcome, false)
}

/// Names of the prepared branches.
fn prepared(world: &mut World) -> Vec<String> {
    world.partition(&counter(0)).branches().iter().map(|one| one.branch.name().to_string()).collect()
}

#[track_caller]
fn assert_fresh(verdict: &BranchVerdict) {
    assert!(matches!(verdict, BranchVerdict::Fresh(_)), "{verdict:?}");
}

fn value(world: &World, number: u8) -> i64 {
    world.store.values.get(&counter(number)).map_or(0, |value| value.counter().unwrap())
}

#[test]
fn commit_applies_and_abort_does_not() {
    for outcome in [Commit, Abort] {
        let mut world = world();
        let both = branch("b", &[adding(counter(0), 5), adding(counter(1), -3), adding(counter(0), 2)]);
        assert_fresh(&prepare(&mut world, &both));
        assert_eq!((value(&world, 0), value(&world, 1)), (0, 0), "before it is finished");
        assert_eq!(prepare(&mut world, &both), BranchVerdict::Prepared);
        assert_eq!(prepared(&mut world), ["b"]);
        assert_fresh(&finish(&mut world, "b", outcome));
        let expected = if outcome == Commit { (7, -3) } else { (0, 0) };
        for again in [Commit, Abort] {
            let verdict = finish(&mut world, "b", again);
            assert_eq!(verdict, BranchVerdict::Finished(outcome));
            assert_eq!((value(&world, 0), value(&world, 1)), expected);
        }
        assert_eq!(prepare(&mut world, &both), BranchVerdict::Finished(outcome));
        assert!(prepared(&mut world).is_empty());
    }
}

#[test]
fn an_abort_that_overtakes_its_prepare_wins() {
    let mut world = world();
    assert_fresh(&finish(&mut world, "b", Abort));
    for mut world in [world.clone(), world.replayed()] {
        let late = branch("b", &[adding(counter(0), 5)]);
        assert_eq!(prepare(&mut world, &late), BranchVerdict::Finished(Abort));
        assert_eq!(finish(&mut world, "b", Commit), BranchVerdict::Finished(Abort));
    }
    // A branch that was never prepared is not reported as committed.
    assert_eq!(finish(&mut world, "c", Commit), BranchVerdict::Unknown);
    assert_fresh(&prepare(&mut world, &branch("c", &[adding(counter(0), 5)])));
}

#[test]
fn outcomes_are_recorded_for_the_window() {
    let mut world = world();
    finish(&mut world, "b", Abort);
    let window = u64::try_from(BRANCH_WINDOW.as_millis()).unwrap();
    let late = branch("b", &[adding(counter(0), 5)]);
    world.at(window).tidy();
    assert_eq!(prepare(&mut world, &late), BranchVerdict::Finished(Abort));
    world.at(2 * window).tidy();
    assert!(world.store.answers.is_empty(), "the record expires");
    assert_eq!(finish(&mut world, "b", Commit), BranchVerdict::Unknown);
}

#[test]
fn another_branch_with_a_prepared_name_is_refused() {
    let mut world = world();
    assert_fresh(&prepare(&mut world, &branch("b", &[adding(counter(0), 5)])));
    let other = branch("b", &[adding(counter(0), 6)]);
    assert_eq!(prepare(&mut world, &other), BranchVerdict::Rejected(Rejection::Mismatch));
}

#[test]
fn the_home_is_finished_last() {
    let mut world = world();
    let elsewhere = vec![PartitionId((counter(0).partition().0 + 1) % 256)];
    let home = Branch::new(name("b"), vec![adding(counter(0), 5)], elsewhere.clone()).unwrap();
    assert_fresh(&prepare(&mut world, &home));
    for outcome in [Commit, Abort] {
        let verdict = finish(&mut world, "b", outcome);
        assert_eq!(verdict, BranchVerdict::Elsewhere(elsewhere.clone()));
    }
    assert_eq!(prepared(&mut world), ["b"]);
    assert_fresh(&world.finish(&name("b"), &counter(0), Commit, true));
    assert_eq!(value(&world, 0), 5);
}

#[test]
fn own_bounds_and_reserved_values_are_distinguished() {
    let mut world = world();
    world.change_cell(&uuid7(0, 1), &counter(0), Change::Set(10)).applied();
    let take = |of: &str, delta| branch(of, &[Addition { min: Some(0), ..adding(counter(0), delta) }]);
    let beyond = BranchVerdict::Rejected(Rejection::Bound { value: 10 });
    assert_eq!(prepare(&mut world, &take("a", -11)), beyond);
    assert_fresh(&prepare(&mut world, &take("b", -8)));
    assert_eq!(prepare(&mut world, &take("c", -3)), BranchVerdict::Rejected(Rejection::Reserved));
    assert_fresh(&prepare(&mut world, &take("d", -2)));
    // A prepared addition does not count yet: it may be aborted.
    assert_fresh(&prepare(&mut world, &branch("e", &[adding(counter(0), 100)])));
    let mut refused = |number, change| world.change_cell(&uuid7(0, number), &counter(0), change).rejected();
    for (number, change) in [
        (2, Change::Add(-1)),
        (3, within(-1, Some(0), None)),
        (4, Change::Set(9)),
        (5, Change::Reset),
        (6, Change::Delete),
        (7, put("bytes")),
        (8, append("x")),
        (9, Change::Expire(Some(START + 1_000))),
    ] {
        assert_eq!(refused(number, change), Rejection::Reserved, "{number}");
    }
    // Changes that leave enough are applied: a larger value, a removed expiry.
    world.change_cell(&uuid7(0, 10), &counter(0), Change::Set(11)).applied();
    world.change_cell(&uuid7(0, 11), &counter(0), Change::Expire(None)).applied();
    world.change_cell(&uuid7(0, 12), &counter(0), Change::Add(-1)).applied();
    // A bound of the operation itself refuses permanently, as always.
    world.change_cell(&uuid7(0, 13), &counter(0), within(-11, Some(0), None)).refused();
    assert_fresh(&finish(&mut world, "b", Abort));
    world.change_cell(&uuid7(0, 2), &counter(0), Change::Add(-1)).applied();
    assert_fresh(&finish(&mut world, "d", Commit));
    assert_eq!(value(&world, 0), 7);
}

#[test]
fn an_expiry_in_the_past_counts_as_an_empty_cell() {
    let mut world = world();
    let at_least_zero = Addition { min: Some(0), ..adding(counter(0), 0) };
    assert_fresh(&prepare(&mut world, &branch("b", &[at_least_zero])));
    world.at(60);
    let ended = |until| [(counter(0), Change::Add(-1)), (counter(0), Change::Expire(Some(START + until)))];
    // It would be -1 for one millisecond.
    assert_eq!(world.batch(&uuid7(60, 1), &ended(61)).rejected(), Rejection::Reserved);
    world.batch(&uuid7(60, 2), &ended(60)).applied();
    assert_fresh(&finish(&mut world, "b", Commit));
    assert_eq!(value(&world, 0), 0);
}

#[test]
fn escrow_at_the_range_limits() {
    let mut world = world();
    world.change_cell(&uuid7(0, 1), &counter(0), Change::Set(i64::MAX - 5)).applied();
    let add = |of: &str, delta| branch(of, &[adding(counter(0), delta)]);
    assert_eq!(prepare(&mut world, &add("a", 6)), BranchVerdict::Rejected(Rejection::Overflow));
    // A prepared subtraction makes no room before its commit.
    assert_fresh(&prepare(&mut world, &add("b", -100)));
    assert_fresh(&prepare(&mut world, &add("c", 5)));
    assert_eq!(prepare(&mut world, &add("d", 1)), BranchVerdict::Rejected(Rejection::Reserved));
    assert_eq!(world.change_cell(&uuid7(0, 2), &counter(0), Change::Add(1)).rejected(), Rejection::Reserved);
    assert_fresh(&finish(&mut world, "c", Commit));
    assert_eq!(value(&world, 0), i64::MAX);
}

#[test]
fn a_branch_has_limits() {
    assert_eq!(BranchName::new(b""), Err(BranchError::Name(0)));
    assert!(BranchName::new(&[7; BRANCH_NAME_BYTES_MAX]).is_ok());
    assert!(BranchName::new(&[7; BRANCH_NAME_BYTES_MAX + 1]).is_err());
    let of = |additions: Vec<Addition>, elsewhere| Branch::new(name("b"), additions, elsewhere);
    assert_eq!(of(vec![], vec![]), Err(BranchError::Empty));
    assert!(of(vec![], vec![PartitionId(1)]).is_ok());
    let one = adding(counter(0), 1);
    assert!(of(vec![one.clone(); ADDITIONS_MAX], vec![]).is_ok());
    assert_eq!(of(vec![one.clone(); ADDITIONS_MAX + 1], vec![]), Err(BranchError::TooMany));
    let crossed = Addition { min: Some(3), max: Some(2), ..one.clone() };
    assert_eq!(of(vec![crossed], vec![]), Err(BranchError::BoundsCrossed { min: 3, max: 2 }));
    let much = adding(counter(0), i64::MAX);
    assert_eq!(of(vec![one.clone(), much], vec![]), Err(BranchError::Overflow));
    let (here, there) = apart();
    let several = vec![adding(here, 1), adding(there, 1)];
    assert_eq!(of(several, vec![]), Err(BranchError::SeveralPartitions));
    assert_eq!(of(vec![one], vec![counter(0).partition()]), Err(BranchError::SeveralPartitions));
}

#[test]
fn prepared_branches_are_limited() {
    let mut world = world();
    for number in 0..PREPARED_MAX {
        assert_fresh(&prepare(&mut world, &branch(&number.to_string(), &[adding(counter(0), 1)])));
    }
    let more = branch("more", &[adding(counter(0), 1)]);
    let refused = prepare(&mut world, &more);
    assert!(matches!(refused, BranchVerdict::Rejected(Rejection::Capacity { .. })), "{refused:?}");
    assert_fresh(&finish(&mut world, "7", Abort));
    assert_fresh(&prepare(&mut world, &more));
}

#[test]
fn prepared_branches_are_limited_in_bytes() {
    let mut world = world();
    let two = |of: &str| branch(of, &[adding(counter(0), 1), adding(counter(1), 1)]);
    world.partition(&counter(0)).branches().limit(two("a").size_max() * 2 - 1);
    assert_fresh(&prepare(&mut world, &two("a")));
    let refused = prepare(&mut world, &two("b"));
    assert!(matches!(refused, BranchVerdict::Rejected(Rejection::Capacity { .. })), "{refused:?}");
    assert_fresh(&prepare(&mut world, &branch("c", &[adding(counter(0), 1)])));
    assert_fresh(&finish(&mut world, "a", Abort));
    assert_fresh(&finish(&mut world, "c", Abort));
    // A branch of any size can be prepared alone.
    world.partition(&counter(0)).branches().limit(1);
    assert_fresh(&prepare(&mut world, &two("b")));
    let refused = prepare(&mut world, &branch("d", &[adding(counter(0), 1)]));
    assert!(matches!(refused, BranchVerdict::Rejected(Rejection::Capacity { .. })), "{refused:?}");
}

#[test]
fn branch_encoding_is_stable() {
    let cell = Cell::from_bytes(&[0, 3, 0, 0, 0, 1, b'a', 0, 0]).unwrap();
    let addition = Addition { min: Some(0), ..adding(cell, -2) };
    let branch = Branch::new(name("b"), vec![addition], vec![PartitionId(200)]).unwrap();
    let finished = |outcome, values| {
        let (name, generation) = (name("b"), Generation(300));
        BranchLogItem::Finished { name, outcome, values, generation }
    };
    let steps =
        [BranchLogItem::Prepared(branch), finished(Commit, vec![Value::Counter(5)]), finished(Abort, vec![])];
    let bytes = entry_of(LogPosition { slot: 1, time: Timestamp::from_millis(5) }, |out| {
        steps.iter().for_each(|step| log_entry::push_branch(step, out));
    });
    let expected = [
        &[2, 5][..],
        &[16, 1, b'b', 1, 200, 1, 1, 9, 0, 3, 0, 0, 0, 1, b'a', 0, 0, 1, 3, 0],
        &[17, 1, b'b', 172, 2, 1, 1, 10],
        &[18, 1, b'b', 172, 2, 0],
    ];
    assert_eq!(bytes, expected.concat());
    let read: Vec<LogItem> = Entry::read(1, &bytes).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, steps.map(LogItem::Branch));
    for len in 3..bytes.len() {
        let read: Result<Vec<LogItem>, _> = Entry::read(1, &bytes[..len]).unwrap().collect();
        assert!(read.is_err() || len == 22 || len == 30, "cut after {len}");
    }
}

/// The row of a partition without branches is as it was before branches existed; a row with branches must
/// have all of them.
#[test]
fn a_partition_row_counts_its_branches() {
    let mut world = world();
    let without = world.partition(&counter(0)).encode();
    assert_fresh(&prepare(&mut world, &branch("b", &[adding(counter(0), 1)])));
    let row = world.partition(&counter(0)).encode();
    assert_eq!(row.last(), Some(&1));
    let id = counter(0).partition();
    assert!(Partition::decode(id, &without).unwrap().branches().restored().is_ok());
    let mut partition = Partition::decode(id, &row).unwrap();
    assert!(partition.branches().restored().is_err(), "a branch is missing");
    let rows = world.partition(&counter(0)).branches().take_changed();
    let [(of, Some(row))] = &rows[..] else { panic!("{rows:?}") };
    assert!(partition.branches().restore(id, b"other", row).is_err());
    partition.branches().restore(id, of.as_bytes(), row).unwrap();
    assert!(partition.branches().restored().is_ok());
    assert!(
        partition.branches().restore(id, of.as_bytes(), row).is_err(),
        "more branches than the row counts"
    );
}

#[derive(Debug, Clone)]
enum Event {
    Prepare(u8, Vec<(u8, i64, Option<i64>, Option<i64>)>),
    Finish(u8, BranchOutcome),
    Change(Vec<(u8, Change)>),
    Wait(u64),
    Checkpoint,
    Crash,
}

fn any_delta() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -20..20i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just(i64::MAX - 10)]
}

fn any_event() -> impl Strategy<Value = Event> {
    let bound = || prop::option::of(-10..15i64);
    let change = prop_oneof![
        4 => any_delta().prop_map(Change::Add),
        2 => (any_delta(), bound()).prop_map(|(delta, min)| within(delta, min, None)),
        1 => (-20..20i64).prop_map(Change::Set),
        1 => Just(Change::Delete),
        1 => Just(put("x")),
        1 => Just(append("1")),
        2 => prop::option::of(0..300u64).prop_map(|until| Change::Expire(until.map(|until| START + until))),
    ];
    prop_oneof![
        6 => (0..6u8, prop::collection::vec((0..3u8, any_delta(), bound(), bound()), 1..4))
            .prop_map(|(of, additions)| Event::Prepare(of, additions)),
        4 => (0..6u8, prop_oneof![Just(Commit), Just(Abort)])
            .prop_map(|(of, outcome)| Event::Finish(of, outcome)),
        5 => prop::collection::vec((0..3u8, change), 1..4).prop_map(Event::Change),
        2 => (0..60u64).prop_map(Event::Wait),
        1 => Just(Event::Checkpoint),
        1 => Just(Event::Crash),
    ]
}

/// The additions of the prepared branches.
type Model = BTreeMap<u8, Vec<Addition>>;

/// Whether every branch can commit after any of the others, tried one by one, for each of these counter
/// values.
fn can_all_commit(model: &Model, cell: &Cell, numbers: &[i64]) -> bool {
    let of: Vec<&Addition> = model.values().flatten().filter(|one| one.cell == *cell).collect();
    (0..of.len()).all(|one| {
        (0..1 << of.len()).filter(|others| others >> one & 1 == 0).all(|others: u32| {
            numbers.iter().all(|number| {
                let before = (0..of.len()).filter(|at| others >> at & 1 == 1);
                let before: i128 = before.map(|at| i128::from(of[at].delta)).sum();
                let after = i128::from(*number) + before + i128::from(of[one].delta);
                i64::try_from(after).is_ok_and(|after| {
                    of[one].min.is_none_or(|min| after >= min) && of[one].max.is_none_or(|max| after <= max)
                })
            })
        })
    })
}

/// The counter's value now and after an expiry; `None` if the cell is not a counter.
fn numbers(value: Option<&Value>) -> Option<Vec<i64>> {
    match value {
        None => Some(vec![0]),
        Some(value) if value.until().is_some() => Some(vec![value.counter()?, 0]),
        Some(value) => Some(vec![value.counter()?]),
    }
}

/// Whether all prepared branches can commit with these contents of the cells.
fn can_commit_in(model: &Model, now: Timestamp, store: &Store) -> bool {
    let now = now.as_nanos() / 1_000_000;
    (0..3).map(counter).all(|cell| {
        let touched = model.values().flatten().any(|one| one.cell == cell);
        let value = store.values.get(&cell).cloned().and_then(|value| value.at(now));
        !touched || numbers(value.as_ref()).is_some_and(|numbers| can_all_commit(model, &cell, &numbers))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// In any history: a prepared branch can commit, counts once if it does and never otherwise, and nothing
    /// is refused that would keep this true. Across crashes too.
    #[test]
    fn prepared_branches_can_always_commit(events in prop::collection::vec(any_event(), 1..40)) {
        let mut world = world();
        let mut model = Model::new();
        let mut finished: BTreeMap<u8, BranchOutcome> = BTreeMap::new();
        let mut millis = 0;
        for event in events {
            let before = world.store.clone();
            match event {
                Event::Prepare(of, additions) => {
                    let additions = additions
                        .into_iter()
                        .map(|(cell, delta, min, max)| Addition { cell: counter(cell), delta, min, max });
                    let branch = Branch::new(name(&of.to_string()), additions.collect(), Vec::new());
                    let Ok(branch) = branch else { continue };
                    let verdict = prepare(&mut world, &branch);
                    let mut with = model.clone();
                    with.insert(of, branch.additions().to_vec());
                    let expected = match (model.get(&of), finished.get(&of)) {
                        (Some(same), _) if same == branch.additions() => BranchVerdict::Prepared,
                        (Some(_), _) => BranchVerdict::Rejected(Rejection::Mismatch),
                        (_, Some(outcome)) => BranchVerdict::Finished(*outcome),
                        _ if can_commit_in(&with, world.now, &world.store) => {
                            model = with;
                            BranchVerdict::Fresh(BranchLogItem::Prepared(branch))
                        }
                        _ => {
                            prop_assert!(matches!(verdict, BranchVerdict::Rejected(_)), "{:?}", verdict);
                            verdict.clone()
                        }
                    };
                    prop_assert_eq!(verdict, expected);
                    prop_assert_eq!(&world.store.values, &before.values);
                }
                Event::Finish(of, outcome) => {
                    let verdict = finish(&mut world, &of.to_string(), outcome);
                    let mut expected = before.values.clone();
                    match (model.remove(&of), finished.get(&of).copied()) {
                        (Some(additions), _) => {
                            assert_fresh(&verdict);
                            finished.insert(of, outcome);
                            for one in additions.iter().filter(|_| outcome == Commit) {
                                let value = expected.get(&one.cell).cloned();
                                let value = value.and_then(|value| value.at(START + millis));
                                let sum = value.as_ref().map_or(0, |value| value.counter().unwrap()) + one.delta;
                                let until = value.and_then(|value| value.until());
                                expected.insert(one.cell.clone(), Value::Counter(sum).lasting(until));
                            }
                        }
                        (None, Some(before)) => prop_assert_eq!(verdict, BranchVerdict::Finished(before)),
                        (None, None) if outcome == Commit => prop_assert_eq!(verdict, BranchVerdict::Unknown),
                        (None, None) => {
                            assert_fresh(&verdict);
                            finished.insert(of, outcome);
                        }
                    }
                    prop_assert_eq!(&world.store.values, &expected);
                }
                Event::Change(changes) => {
                    let changes = changes.into_iter().map(|(cell, change)| (counter(cell), change)).collect();
                    let operation = Operation::batch(None, changes).unwrap();
                    // The verdict in a partition without prepared branches.
                    let mut free = Partition::new(operation.partition());
                    let (step, mut store) = (free.next_step(world.now), world.store.clone());
                    let hashes = hashes(&operation);
                    let Ok(freely) = free.decide(step, world.table(), &operation, hashes, &mut store);
                    let verdict = world.submit(&operation);
                    let Verdict::Fresh(decision) = &freely else {
                        prop_assert_eq!(verdict, freely);
                        continue;
                    };
                    free.advance(step).unwrap();
                    free.apply(world.table(), &operation, hashes, decision, &mut store).unwrap();
                    if can_commit_in(&model, world.now, &store) {
                        prop_assert!(matches!(verdict, Verdict::Fresh(_)), "{:?}", verdict);
                        prop_assert_eq!(&world.store.values, &store.values);
                    } else {
                        prop_assert_eq!(verdict, Verdict::Rejected(Rejection::Reserved));
                        prop_assert_eq!(&world.store.values, &before.values);
                    }
                }
                Event::Wait(more) => {
                    millis += more;
                    world.at(millis);
                }
                Event::Checkpoint => world.checkpoint(),
                Event::Crash => {
                    for mut other in [world.recovered(), world.replayed()] {
                        let found = other.partition(&counter(0)).branches().iter();
                        prop_assert!(found.eq(world.partition(&counter(0)).branches().iter()));
                        prop_assert_eq!(&other.store, &world.store);
                    }
                    world = world.recovered();
                }
            }
            prop_assert!(can_commit_in(&model, world.now, &world.store), "a branch cannot commit any more");
            let names: Vec<String> = model.keys().map(u8::to_string).collect();
            prop_assert_eq!(prepared(&mut world), names);
        }
    }
}
