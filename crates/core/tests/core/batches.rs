//! Batches: the changes of one operation, all or none, in order.

use crate::common::*;

#[test]
fn a_batch_in_another_order_is_another_operation() {
    let mut world = world();
    let changes = [(column("a", "f:1"), Change::Add(1)), (column("a", "f:2"), Change::Add(2))];
    world.batch(&uuid7(0, 1), &changes).fresh();
    assert_eq!(world.batch(&uuid7(0, 1), &changes).replayed().values.as_slice(), [Some(1), Some(2)]);
    let [first, second] = changes;
    assert_eq!(world.batch(&uuid7(0, 1), &[second, first]).rejected(), Rejection::Mismatch);
}

#[test]
fn a_batch_applies_all_changes() {
    let mut world = world();
    let (one, two) = (column("a", "f:1"), column("a", "f:2"));
    let changes = [(one.clone(), Change::Add(1)), (two.clone(), put("7")), (cell("a"), Change::Set(3))];
    let answer = world.batch(&uuid7(0, 1), &changes).fresh().answer;
    assert_eq!(answer.values.as_slice(), [Some(1), None, Some(3)]);
    assert_eq!(world.store.values[&one], Value::Counter(1));
    assert_eq!(world.store.values[&two], bytes("7"));
    assert_eq!(world.batch(&uuid7(0, 1), &changes).replayed(), answer);
    assert_eq!(world.counter("a"), 3);
}

#[test]
fn changes_of_one_cell_see_each_other() {
    let mut world = world();
    let changes = [Change::Add(1), within(2, None, Some(3)), put("0"), Change::Delete, Change::Add(7)];
    let answer = world.batch(&uuid7(0, 1), &changes.map(|change| (cell("a"), change))).fresh().answer;
    assert_eq!(answer.values.as_slice(), [Some(1), Some(3), None, None, Some(7)]);
    assert_eq!(world.counter("a"), 7);
    let changes = [put("x"), Change::Add(1)].map(|change| (cell("a"), change));
    assert_eq!(world.batch(&uuid7(0, 2), &changes).rejected(), Rejection::NotACounter);
}

#[test]
fn one_bound_refuses_the_whole_batch() {
    let mut world = world();
    let (a, b, c) = (cell("a"), column("a", "f:b"), column("a", "f:c"));
    world.add(&opaque("start"), 10).applied();
    let changes = [
        (a.clone(), Change::Add(1)),
        (a.clone(), within(-20, Some(0), None)),
        (b.clone(), Change::Set(9)),
        (b.clone(), Change::Add(1)),
        (c, Change::Add(2)),
    ];
    let before = [Some(10), Some(10), Some(0), Some(0), Some(0)];
    assert_eq!(world.batch(&uuid7(0, 1), &changes).refused(), before);
    assert_eq!(world.counter("a"), 10);
    assert!(!world.store.values.contains_key(&b));
    world.add(&opaque("more"), 100).applied();
    let again = world.batch(&uuid7(0, 1), &changes).replayed();
    assert_eq!((again.applied, again.values.as_slice()), (false, &before[..]));
    assert_eq!(world.counter("a"), 110);
}

#[test]
fn an_overflow_in_a_batch_changes_nothing() {
    let mut world = world();
    let (a, b) = (cell("a"), column("a", "f:b"));
    // A refusal by an earlier bound is not recorded either.
    for first in [Change::Add(1), within(1, None, Some(0))] {
        let changes = [(a.clone(), first), (b.clone(), Change::Add(i64::MAX)), (b.clone(), Change::Add(1))];
        assert_eq!(world.batch(&uuid7(0, 1), &changes).rejected(), Rejection::Overflow);
    }
    assert!(world.store.values.is_empty());
    world.batch(&uuid7(0, 1), &[(a, Change::Add(1)), (b, Change::Add(1))]).fresh();
}

/// Any change of a small cell, with bounds that often refuse.
fn any_change() -> impl Strategy<Value = Change> {
    let bound = || prop::option::of(-8..8i64);
    prop_oneof![
        4 => (-9..9i64).prop_map(Change::Add),
        4 => (-9..9i64, bound(), bound()).prop_map(|(delta, min, max)| within(
            delta,
            min.map(|min| max.map_or(min, |max| min.min(max))),
            max
        )),
        1 => prop::sample::select(vec![i64::MAX, i64::MIN, 0, 5]).prop_map(Change::Set),
        1 => Just(Change::Reset),
        1 => Just(Change::Delete),
        1 => Just(put("bytes")),
    ]
}

proptest! {
    /// Reference model of a batch: apply one change after the other to a copy, and keep it if all succeed.
    #[test]
    fn a_batch_equals_its_changes_in_sequence(
        batches in prop::collection::vec(prop::collection::vec((0..3usize, any_change()), 1..6), 1..12)
    ) {
        let cells = [column("a", "f:0"), column("a", "f:1"), column("a", "f:2")];
        let mut world = world();
        for (number, batch) in batches.into_iter().enumerate() {
            let before = world.store.values.clone();
            let mut model = before.clone();
            let (mut values, mut refused, mut impossible) = (Vec::new(), false, None);
            for (at, change) in &batch {
                let cell = &cells[*at];
                let counter = model.get(cell).map_or(Some(0), Value::counter);
                let sum = |delta: i64| i128::from(counter.unwrap_or(0)) + i128::from(delta);
                let after = match change {
                    Change::Add(_) | Change::AddWithin { .. } if counter.is_none() => {
                        impossible = impossible.or(Some(Rejection::NotACounter));
                        continue;
                    }
                    Change::Add(delta) => Some(sum(*delta)),
                    Change::AddWithin { delta, min, max } => {
                        let sum = sum(*delta);
                        if min.is_some_and(|min| sum < i128::from(min)) || max.is_some_and(|max| sum > i128::from(max)) {
                            refused = true;
                            continue;
                        }
                        Some(sum)
                    }
                    Change::Set(value) => Some(i128::from(*value)),
                    Change::Reset => Some(0),
                    Change::Delete | Change::Put(_) => None,
                    Change::Check(_) | Change::Expire(_) | Change::Append(_) => unreachable!("not drawn here"),
                };
                let Ok(after) = after.map(i64::try_from).transpose() else {
                    impossible = impossible.or(Some(Rejection::Overflow));
                    continue;
                };
                match (change, after) {
                    (Change::Put(bytes), _) => model.insert(cell.clone(), Value::Bytes(bytes.clone())),
                    (_, Some(value)) => model.insert(cell.clone(), Value::Counter(value)),
                    (_, None) => model.remove(cell),
                };
                values.push(after);
            }
            let changes: Vec<_> = batch.iter().map(|(at, change)| (cells[*at].clone(), change.clone())).collect();
            let verdict = world.batch(&uuid7(0, number as u64), &changes);
            if let Some(rejection) = impossible {
                prop_assert_eq!(verdict, Verdict::Rejected(rejection));
                prop_assert_eq!(&world.store.values, &before);
            } else if refused {
                let counter = |(cell, _): &(Cell, Change)| before.get(cell).map_or(Some(0), Value::counter);
                prop_assert_eq!(verdict.refused(), changes.iter().map(counter).collect::<Vec<_>>());
                prop_assert_eq!(&world.store.values, &before);
            } else {
                let answer = verdict.fresh().answer;
                prop_assert!(answer.applied);
                prop_assert_eq!(answer.values.as_slice(), &values[..]);
                prop_assert_eq!(&world.store.values, &model);
            }
        }
    }
}
