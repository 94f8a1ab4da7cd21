//! Branches of transactions: prepare, commit, abort, and their effect on other writes to the same counters.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;

use common::*;
use jeton_core::limits::{ADDITIONS_MAX, BRANCH_NAME_BYTES_MAX, BRANCH_WINDOW, PREPARED_MAX};
use jeton_core::{
    Addition, Branch, BranchError, BranchLogItem, BranchName, BranchOutcome, BranchVerdict, Cell, Change,
    Entry, Generation, Hashes, LogItem, LogPosition, Operation, Partition, PartitionId, Rejection, Timestamp,
    Value, Verdict, log_entry,
};
use proptest::prelude::*;

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

fn world() -> World {
    World::new(settings())
}

fn held(world: &mut World) -> Vec<String> {
    world.partition(&counter(0)).branches().iter().map(|held| held.branch.name().to_string()).collect()
}

#[track_caller]
fn is_fresh(verdict: &BranchVerdict) {
    assert!(matches!(verdict, BranchVerdict::Fresh(_)), "{verdict:?}");
}

fn value(world: &World, number: u8) -> i64 {
    world.store.values.get(&counter(number)).map_or(0, |value| value.counter().unwrap())
}

#[test]
fn commit_applies_and_abort_does_not() {
    for outcome in [BranchOutcome::Commit, BranchOutcome::Abort] {
        let mut world = world();
        let both = branch("b", &[adding(counter(0), 5), adding(counter(1), -3), adding(counter(0), 2)]);
        is_fresh(&world.prepare(&both, &counter(0)));
        assert_eq!((value(&world, 0), value(&world, 1)), (0, 0), "before it is settled");
        assert_eq!(world.prepare(&both, &counter(0)), BranchVerdict::Prepared);
        assert_eq!(held(&mut world), ["b"]);
        is_fresh(&world.finish(&name("b"), &counter(0), outcome, false));
        let expected = if outcome == BranchOutcome::Commit { (7, -3) } else { (0, 0) };
        for again in [BranchOutcome::Commit, BranchOutcome::Abort] {
            let verdict = world.finish(&name("b"), &counter(0), again, false);
            assert_eq!(verdict, BranchVerdict::Finished(outcome));
            assert_eq!((value(&world, 0), value(&world, 1)), expected);
        }
        assert_eq!(world.prepare(&both, &counter(0)), BranchVerdict::Finished(outcome));
        assert!(held(&mut world).is_empty());
    }
}

#[test]
fn an_abort_that_overtakes_its_prepare_wins() {
    let mut world = world();
    is_fresh(&world.finish(&name("b"), &counter(0), BranchOutcome::Abort, false));
    for mut world in [world.clone(), world.replayed()] {
        let late = branch("b", &[adding(counter(0), 5)]);
        assert_eq!(world.prepare(&late, &counter(0)), BranchVerdict::Finished(BranchOutcome::Abort));
        assert_eq!(
            world.finish(&name("b"), &counter(0), BranchOutcome::Commit, false),
            BranchVerdict::Finished(BranchOutcome::Abort)
        );
    }
    // A branch that was never prepared is not reported as committed.
    assert_eq!(world.finish(&name("c"), &counter(0), BranchOutcome::Commit, false), BranchVerdict::Unknown);
    is_fresh(&world.prepare(&branch("c", &[adding(counter(0), 5)]), &counter(0)));
}

#[test]
fn outcomes_are_recorded_for_the_window() {
    let mut world = world();
    world.finish(&name("b"), &counter(0), BranchOutcome::Abort, false);
    let window = u64::try_from(BRANCH_WINDOW.as_millis()).unwrap();
    let late = branch("b", &[adding(counter(0), 5)]);
    world.at(window).tidy();
    assert_eq!(world.prepare(&late, &counter(0)), BranchVerdict::Finished(BranchOutcome::Abort));
    world.at(2 * window).tidy();
    assert!(world.store.answers.is_empty(), "it is not remembered for ever");
    assert_eq!(world.finish(&name("b"), &counter(0), BranchOutcome::Commit, false), BranchVerdict::Unknown);
}

#[test]
fn another_branch_with_a_prepared_name_is_refused() {
    let mut world = world();
    is_fresh(&world.prepare(&branch("b", &[adding(counter(0), 5)]), &counter(0)));
    let other = branch("b", &[adding(counter(0), 6)]);
    assert_eq!(world.prepare(&other, &counter(0)), BranchVerdict::Rejected(Rejection::Mismatch));
}

#[test]
fn the_home_is_finished_last() {
    let mut world = world();
    let elsewhere = vec![PartitionId((counter(0).partition().0 + 1) % 256)];
    let home = Branch::new(name("b"), vec![adding(counter(0), 5)], elsewhere.clone()).unwrap();
    is_fresh(&world.prepare(&home, &counter(0)));
    for outcome in [BranchOutcome::Commit, BranchOutcome::Abort] {
        let verdict = world.finish(&name("b"), &counter(0), outcome, false);
        assert_eq!(verdict, BranchVerdict::Elsewhere(elsewhere.clone()));
    }
    assert_eq!(held(&mut world), ["b"]);
    is_fresh(&world.finish(&name("b"), &counter(0), BranchOutcome::Commit, true));
    assert_eq!(value(&world, 0), 5);
}

#[test]
fn own_bounds_and_reserved_values_are_told_apart() {
    let mut world = world();
    world.change_cell(&minted(0, 1), &counter(0), Change::Set(10)).applied();
    let take = |of: &str, delta| branch(of, &[Addition { min: Some(0), ..adding(counter(0), delta) }]);
    let beyond = BranchVerdict::Rejected(Rejection::Bound { value: 10 });
    assert_eq!(world.prepare(&take("a", -11), &counter(0)), beyond);
    is_fresh(&world.prepare(&take("b", -8), &counter(0)));
    assert_eq!(world.prepare(&take("c", -3), &counter(0)), BranchVerdict::Rejected(Rejection::Reserved));
    is_fresh(&world.prepare(&take("d", -2), &counter(0)));
    // A prepared addition does not count yet: it may be aborted.
    is_fresh(&world.prepare(&branch("e", &[adding(counter(0), 100)]), &counter(0)));
    let mut refused = |number, change| world.change_cell(&minted(0, number), &counter(0), change).rejected();
    for (number, change) in [
        (2, Change::Add(-1)),
        (3, within(-1, Some(0), None)),
        (4, Change::Set(9)),
        (5, Change::Reset),
        (6, Change::Delete),
        (7, Change::Put((*b"bytes").into())),
        (8, Change::Append((*b"x").into())),
        (9, Change::Expire(Some(START + 1_000))),
    ] {
        assert_eq!(refused(number, change), Rejection::Reserved, "{number}");
    }
    // Changes that leave enough are applied: a larger value, a removed expiry.
    world.change_cell(&minted(0, 10), &counter(0), Change::Set(11)).applied();
    world.change_cell(&minted(0, 11), &counter(0), Change::Expire(None)).applied();
    world.change_cell(&minted(0, 12), &counter(0), Change::Add(-1)).applied();
    // A bound of the operation itself refuses permanently, as always.
    world.change_cell(&minted(0, 13), &counter(0), within(-11, Some(0), None)).refused();
    is_fresh(&world.finish(&name("b"), &counter(0), BranchOutcome::Abort, false));
    world.change_cell(&minted(0, 2), &counter(0), Change::Add(-1)).applied();
    is_fresh(&world.finish(&name("d"), &counter(0), BranchOutcome::Commit, false));
    assert_eq!(value(&world, 0), 7);
}

#[test]
fn an_expiry_in_the_past_counts_as_an_empty_cell() {
    let mut world = world();
    is_fresh(
        &world.prepare(&branch("b", &[Addition { min: Some(0), ..adding(counter(0), 0) }]), &counter(0)),
    );
    world.at(60);
    let ended = |until| [(counter(0), Change::Add(-1)), (counter(0), Change::Expire(Some(START + until)))];
    assert_eq!(
        world.batch(&minted(60, 1), &ended(61)).rejected(),
        Rejection::Reserved,
        "for a moment it is there"
    );
    world.batch(&minted(60, 2), &ended(60)).applied();
    is_fresh(&world.finish(&name("b"), &counter(0), BranchOutcome::Commit, false));
    assert_eq!(value(&world, 0), 0);
}

#[test]
fn escrow_at_the_range_limits() {
    let mut world = world();
    world.change_cell(&minted(0, 1), &counter(0), Change::Set(i64::MAX - 5)).applied();
    let add = |of: &str, delta| branch(of, &[adding(counter(0), delta)]);
    assert_eq!(world.prepare(&add("a", 6), &counter(0)), BranchVerdict::Rejected(Rejection::Overflow));
    // A value that may be taken away makes no room until it is.
    is_fresh(&world.prepare(&add("b", -100), &counter(0)));
    is_fresh(&world.prepare(&add("c", 5), &counter(0)));
    assert_eq!(world.prepare(&add("d", 1), &counter(0)), BranchVerdict::Rejected(Rejection::Reserved));
    assert_eq!(world.change_cell(&minted(0, 2), &counter(0), Change::Add(1)).rejected(), Rejection::Reserved);
    is_fresh(&world.finish(&name("c"), &counter(0), BranchOutcome::Commit, false));
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
    let far = (0..).map(|row| cell(&format!("r{row}"))).find(|far| far.partition() != counter(0).partition());
    let far = adding(far.unwrap(), 1);
    assert_eq!(of(vec![one.clone(), far], vec![]), Err(BranchError::SeveralPartitions));
    assert_eq!(of(vec![one], vec![counter(0).partition()]), Err(BranchError::SeveralPartitions));
}

#[test]
fn prepared_branches_are_limited() {
    let mut world = world();
    for number in 0..PREPARED_MAX {
        is_fresh(&world.prepare(&branch(&number.to_string(), &[adding(counter(0), 1)]), &counter(0)));
    }
    let more = branch("more", &[adding(counter(0), 1)]);
    let refused = world.prepare(&more, &counter(0));
    assert!(matches!(refused, BranchVerdict::Rejected(Rejection::Capacity { .. })), "{refused:?}");
    is_fresh(&world.finish(&name("7"), &counter(0), BranchOutcome::Abort, false));
    is_fresh(&world.prepare(&more, &counter(0)));
}

#[test]
fn branch_encoding_is_stable() {
    let addition = Addition {
        cell: Cell::from_bytes(&[0, 3, 0, 0, 0, 1, b'a', 0, 0]).unwrap(),
        delta: -2,
        min: Some(0),
        max: None,
    };
    let branch = Branch::new(name("b"), vec![addition], vec![PartitionId(200)]).unwrap();
    let settled = |outcome, values| BranchLogItem::Finished {
        name: name("b"),
        outcome,
        values,
        generation: Generation(300),
    };
    let steps = [
        BranchLogItem::Prepared(branch),
        settled(BranchOutcome::Commit, vec![Value::Counter(5)]),
        settled(BranchOutcome::Abort, vec![]),
    ];
    let mut bytes = Vec::new();
    log_entry::begin(LogPosition { slot: 1, time: Timestamp::from_millis(5) }, &mut bytes);
    steps.iter().for_each(|step| log_entry::push_branch(step, &mut bytes));
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
    is_fresh(&world.prepare(&branch("b", &[adding(counter(0), 1)]), &counter(0)));
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
    assert!(partition.branches().restore(id, of.as_bytes(), row).is_err(), "one more than there are");
}

#[derive(Debug, Clone)]
enum Act {
    Hold(u8, Vec<(u8, i64, Option<i64>, Option<i64>)>),
    Settle(u8, BranchOutcome),
    Change(Vec<(u8, Change)>),
    Pass(u64),
    Checkpoint,
    Crash,
}

fn any_delta() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -20..20i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just(i64::MAX - 10)]
}

fn any_act() -> impl Strategy<Value = Act> {
    let bound = || prop::option::of(-10..15i64);
    let change = prop_oneof![
        4 => any_delta().prop_map(Change::Add),
        2 => (any_delta(), bound()).prop_map(|(delta, min)| within(delta, min, None)),
        1 => (-20..20i64).prop_map(Change::Set),
        1 => Just(Change::Delete),
        1 => Just(Change::Put((*b"x").into())),
        1 => Just(Change::Append((*b"1").into())),
        2 => prop::option::of(0..300u64).prop_map(|until| Change::Expire(until.map(|until| START + until))),
    ];
    prop_oneof![
        6 => (0..6u8, prop::collection::vec((0..3u8, any_delta(), bound(), bound()), 1..4))
            .prop_map(|(of, additions)| Act::Hold(of, additions)),
        4 => (0..6u8, any::<bool>())
            .prop_map(|(of, commit)| Act::Settle(of, if commit { BranchOutcome::Commit } else { BranchOutcome::Abort })),
        5 => prop::collection::vec((0..3u8, change), 1..4).prop_map(Act::Change),
        2 => (0..60u64).prop_map(Act::Pass),
        1 => Just(Act::Checkpoint),
        1 => Just(Act::Crash),
    ]
}

/// The additions of the model's branches.
type Asked = BTreeMap<u8, Vec<Addition>>;

/// Whether every branch can commit after any of the others, tried one by one, for each of these counter
/// values.
fn can_all_be_kept(asked: &Asked, cell: &Cell, numbers: &[i64]) -> bool {
    let of: Vec<&Addition> = asked.values().flatten().filter(|one| one.cell == *cell).collect();
    (0..of.len()).all(|one| {
        (0..1 << of.len()).filter(|others| others >> one & 1 == 0).all(|others: u32| {
            numbers.iter().all(|number| {
                let before =
                    (0..of.len()).filter(|at| others >> at & 1 == 1).map(|at| i128::from(of[at].delta));
                let after = i128::from(*number) + before.sum::<i128>() + i128::from(of[one].delta);
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

fn kept_in(asked: &Asked, world: &mut World, store: &Store) -> bool {
    let now = world.now.as_nanos() / 1_000_000;
    (0..3).map(counter).all(|cell| {
        let touched = asked.values().flatten().any(|one| one.cell == cell);
        let value = store.values.get(&cell).cloned().and_then(|value| value.at(now));
        !touched || numbers(value.as_ref()).is_some_and(|numbers| can_all_be_kept(asked, &cell, &numbers))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// In any history: a prepared branch can commit, counts once if it does and never otherwise, and nothing
    /// is refused that would keep this true. Across crashes too.
    #[test]
    fn prepared_branches_can_always_commit(acts in prop::collection::vec(any_act(), 1..40)) {
        let mut world = world();
        let mut asked = Asked::new();
        let mut settled: BTreeMap<u8, BranchOutcome> = BTreeMap::new();
        let mut passed = 0;
        for act in acts {
            let before = world.store.clone();
            match act {
                Act::Hold(of, additions) => {
                    let additions = additions.into_iter().map(|(cell, delta, min, max)| Addition { cell: counter(cell), delta, min, max });
                    let Ok(branch) = Branch::new(name(&of.to_string()), additions.collect(), Vec::new()) else { continue };
                    let verdict = world.prepare(&branch, &counter(0));
                    let mut with = asked.clone();
                    with.insert(of, branch.additions().to_vec());
                    match (asked.get(&of), settled.get(&of)) {
                        (Some(held), _) if held == branch.additions() => prop_assert_eq!(verdict, BranchVerdict::Prepared),
                        (Some(_), _) => prop_assert_eq!(verdict, BranchVerdict::Rejected(Rejection::Mismatch)),
                        (_, Some(outcome)) => prop_assert_eq!(verdict, BranchVerdict::Finished(*outcome)),
                        _ => {
                            let store = world.store.clone();
                            let can = kept_in(&with, &mut world, &store);
                            prop_assert_eq!(matches!(verdict, BranchVerdict::Fresh(_)), can, "{:?}", verdict);
                            if can {
                                asked = with;
                            }
                        }
                    }
                    prop_assert_eq!(&world.store.values, &before.values);
                }
                Act::Settle(of, outcome) => {
                    let verdict = world.finish(&name(&of.to_string()), &counter(0), outcome, false);
                    let mut expected = before.values.clone();
                    match (asked.remove(&of), settled.get(&of).copied()) {
                        (Some(additions), _) => {
                            is_fresh(&verdict);
                            settled.insert(of, outcome);
                            for one in additions.iter().filter(|_| outcome == BranchOutcome::Commit) {
                                let value = expected.get(&one.cell).cloned().and_then(|value| value.at(START + passed));
                                let sum = value.as_ref().map_or(0, |value| value.counter().unwrap()) + one.delta;
                                let until = value.and_then(|value| value.until());
                                expected.insert(one.cell.clone(), Value::Counter(sum).lasting(until));
                            }
                        }
                        (None, Some(before)) => prop_assert_eq!(verdict, BranchVerdict::Finished(before)),
                        (None, None) if outcome == BranchOutcome::Commit => prop_assert_eq!(verdict, BranchVerdict::Unknown),
                        (None, None) => {
                            is_fresh(&verdict);
                            settled.insert(of, outcome);
                        }
                    }
                    prop_assert_eq!(&world.store.values, &expected);
                }
                Act::Change(changes) => {
                    let changes = changes.into_iter().map(|(cell, change)| (counter(cell), change)).collect();
                    let operation = Operation::batch(None, changes).unwrap();
                    // The verdict in a partition without prepared branches.
                    let mut free = Partition::new(operation.partition());
                    let (step, mut store) = (free.next_step(world.now), world.store.clone());
                    let hashes = Hashes::of(&operation, &SECRET, &mut Vec::new());
                    let Ok(freely) = free.decide(step, world.table(), &operation, hashes, &mut store);
                    let verdict = world.submit(&operation);
                    let Verdict::Fresh(decision) = &freely else {
                        prop_assert_eq!(verdict, freely);
                        continue;
                    };
                    free.advance(step).unwrap();
                    free.apply(world.table(), &operation, hashes, decision, &mut store).unwrap();
                    if kept_in(&asked, &mut world, &store) {
                        prop_assert!(matches!(verdict, Verdict::Fresh(_)), "{:?}", verdict);
                        prop_assert_eq!(&world.store.values, &store.values);
                    } else {
                        prop_assert_eq!(verdict, Verdict::Rejected(Rejection::Reserved));
                        prop_assert_eq!(&world.store.values, &before.values);
                    }
                }
                Act::Pass(millis) => {
                    passed += millis;
                    world.at(passed);
                }
                Act::Checkpoint => world.checkpoint(),
                Act::Crash => {
                    let found: Vec<_> = world.partition(&counter(0)).branches().iter().cloned().collect();
                    for mut other in [world.recovered(), world.replayed()] {
                        let again: Vec<_> = other.partition(&counter(0)).branches().iter().cloned().collect();
                        prop_assert_eq!(&again, &found);
                        prop_assert_eq!(&other.store, &world.store);
                    }
                    world = world.recovered();
                }
            }
            let store = world.store.clone();
            prop_assert!(kept_in(&asked, &mut world, &store), "a promise cannot be kept any more");
            let names: Vec<String> = asked.keys().map(u8::to_string).collect();
            prop_assert_eq!(held(&mut world), names);
        }
    }
}
