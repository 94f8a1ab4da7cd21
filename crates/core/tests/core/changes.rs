//! Changes that depend on the content of a cell: checks, expiry, append.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;

/// An expiry `millis` milliseconds after the start of the world.
fn expire(millis: u64) -> Change {
    Change::Expire(Some(START + millis))
}

#[test]
fn a_check_passes_or_refuses_permanently() {
    let mut world = world();
    let a = cell("a");
    let if_absent = [(a.clone(), Change::Check(Check::Absent)), (a.clone(), put("first"))];
    assert!(world.batch(&opaque("1"), &if_absent).fresh().answer.applied);
    assert_eq!(world.value("a"), Some(bytes("first")));
    assert!(!world.batch(&opaque("2"), &if_absent).fresh().answer.applied);
    world.change_row(&opaque("3"), "a", Change::Delete).fresh();
    // A refusal is permanent under its id.
    assert!(!world.batch(&opaque("2"), &if_absent).replayed().applied);
    assert_eq!(world.value("a"), None);

    let if_present = [(a.clone(), Change::Check(Check::Present)), (a.clone(), Change::Set(5))];
    assert!(!world.batch(&opaque("4"), &if_present).fresh().answer.applied);
    world.add(&opaque("5"), 1).applied();
    assert!(world.batch(&opaque("6"), &if_present).fresh().answer.applied);
    let swap = |from, to| [(a.clone(), Change::Check(Check::Holds(from))), (a.clone(), put(to))];
    assert!(!world.batch(&opaque("7"), &swap(Value::Counter(4), "x")).fresh().answer.applied);
    let answer = world.batch(&opaque("8"), &swap(Value::Counter(5), "x")).fresh().answer;
    assert_eq!((answer.applied, answer.values.as_slice()), (true, &[Some(5), None][..]));
    assert!(!world.batch(&opaque("9"), &swap(bytes("y"), "z")).fresh().answer.applied);
    assert_eq!(world.value("a"), Some(bytes("x")));
}

#[test]
fn a_check_takes_no_expiry_for_the_latest_time() {
    let mut world = world();
    let (never, end) = (u64::MAX, START + 50);
    let expires = |min, max| Change::Check(Check::ExpiresWithin { min, max });
    world.change_row(&opaque("empty"), "a", expires(0, never)).refused();
    world.change_row(&opaque("put"), "a", put("text")).fresh();
    for (case, min, max, applied) in [
        ("plain", 0, never, true),
        ("plain", never, never, true),
        ("plain", 0, never - 1, false),
        ("expiring", 0, never - 1, true),
        ("expiring", end, end, true),
        ("expiring", end + 1, never, false),
        ("expiring", 0, end - 1, false),
        ("expiring", never, never, false),
    ] {
        if case == "expiring" {
            world.change_row(&opaque("expire"), "a", expire(50));
        }
        let id = opaque(&format!("{case} {min}..={max}"));
        assert_eq!(world.change_row(&id, "a", expires(min, max)).fresh().answer.applied, applied, "{id}");
    }
    assert_eq!(world.value("a"), Some(bytes("text").lasting(Some(end))));
}

#[test]
fn a_check_changes_nothing_and_sees_earlier_changes() {
    let mut world = world();
    assert!(world.change_row(&opaque("1"), "a", Change::Check(Check::Absent)).fresh().answer.applied);
    assert_eq!(world.value("a"), None);
    // The content of the cell does not change.
    world.change_row(&opaque("put"), "b", put("text")).fresh();
    world.change_row(&opaque("end"), "b", expire(9)).fresh();
    world.change_row(&opaque("check"), "b", Change::Check(Check::Present)).fresh();
    assert_eq!(world.value("b"), Some(bytes("text").lasting(Some(START + 9))));
    let holds = Change::Check(Check::Holds(Value::Counter(3)));
    let changes = [Change::Set(3), holds, Change::Add(4)].map(|change| (cell("a"), change));
    let answer = world.batch(&opaque("2"), &changes).fresh().answer;
    assert_eq!((answer.applied, answer.values.as_slice()), (true, &[Some(3), Some(3), Some(7)][..]));
    assert_eq!(world.value("a"), Some(Value::Counter(7)));
}

#[test]
fn a_value_is_gone_after_its_expiry() {
    let mut world = world();
    world.add(&opaque("1"), 5).applied();
    assert_eq!(world.change_row(&opaque("2"), "a", expire(100)).applied(), 5);
    assert_eq!(world.at(99).add(&opaque("3"), 1).applied(), 6, "adding keeps the value and its expiry");
    assert_eq!(world.value("a"), Some(Value::Counter(6).lasting(Some(START + 100))));
    assert_eq!(world.at(100).add(&opaque("4"), 1).applied(), 1, "it starts from zero");
    assert_eq!(world.value("a"), Some(Value::Counter(1)), "and without an expiry");
}

#[test]
fn expired_values_count_as_empty() {
    let mut world = world();
    world.batch(&opaque("1"), &[(cell("a"), put("text")), (cell("a"), expire(10))]).fresh();
    assert_eq!(world.at(9).add(&opaque("2"), 1).rejected(), Rejection::NotACounter);
    assert_eq!(world.at(10).change_row(&opaque("3"), "a", Change::Expire(None)).refused(), [Some(0)]);
    assert_eq!(world.change_row(&opaque("4"), "a", within(-1, Some(0), None)).refused(), [Some(0)]);
    assert!(!world.change_row(&opaque("5"), "a", Change::Check(Check::Present)).fresh().answer.applied);
    assert_eq!(world.change_row(&opaque("6"), "a", append("7")).applied(), 1);
    assert_eq!(world.value("a"), Some(Value::Counter(7)));
}

#[test]
fn an_expiry_can_be_moved_removed_or_past() {
    let mut world = world();
    world.change_row(&opaque("1"), "a", put("text")).fresh();
    world.change_row(&opaque("2"), "a", expire(10)).fresh();
    world.change_row(&opaque("3"), "a", expire(20)).fresh();
    assert_eq!(world.at(15).value("a"), Some(bytes("text").lasting(Some(START + 20))));
    world.change_row(&opaque("4"), "a", Change::Expire(None)).fresh();
    assert_eq!(world.at(30).change_row(&opaque("5"), "a", append("s")).applied(), 5);
    world.change_row(&opaque("6"), "a", Change::Expire(Some(1))).fresh();
    assert!(world.change_row(&opaque("7"), "a", Change::Check(Check::Absent)).fresh().answer.applied);
    // A new value has no expiry unless one is set.
    world.change_row(&opaque("8"), "a", expire(99)).refused();
    world.batch(&opaque("9"), &[(cell("a"), Change::Set(1)), (cell("a"), expire(99))]);
    world.change_row(&opaque("10"), "a", Change::Set(2)).applied();
    assert_eq!(world.at(200).add(&opaque("11"), 1).applied(), 3);
}

#[test]
fn appending_makes_text_or_numbers() {
    let mut world = world();
    assert_eq!(world.change_row(&opaque("1"), "a", append("1")).applied(), 1);
    assert_eq!(world.add(&opaque("2"), 11).applied(), 12);
    assert_eq!(world.change_row(&opaque("3"), "a", append("34")).applied(), 4);
    assert_eq!(world.add(&opaque("4"), 0).applied(), 1234);
    assert_eq!(world.change_row(&opaque("5"), "a", append("x")).applied(), 5);
    assert_eq!(world.value("a"), Some(bytes("1234x")));
    let rest = append(&"y".repeat(CELL_BYTES_MAX - 5));
    assert_eq!(world.change_row(&opaque("6"), "a", rest).applied(), CELL_BYTES_MAX as i64);
    assert_eq!(world.change_row(&opaque("7"), "a", append("z")).rejected(), Rejection::CellTooLarge);
}

#[test]
fn contents_kept_by_a_change_are_replayed() {
    let mut world = world();
    world.add(&opaque("1"), 5).applied();
    world.change_row(&opaque("2"), "a", expire(100)).applied();
    world.add(&opaque("3"), 2).applied();
    world.change_row(&opaque("4"), "b", append("text")).applied();
    world.change_row(&opaque("5"), "b", expire(50)).fresh();
    let changes = [Change::Check(Check::Present), append("s")].map(|change| (cell("b"), change));
    world.batch(&opaque("6"), &changes).fresh();
    let again = world.replayed();
    assert_eq!(again.value("a"), Some(Value::Counter(7).lasting(Some(START + 100))));
    assert_eq!(again.value("b"), Some(bytes("texts").lasting(Some(START + 50))));
    assert_eq!(again.store.values, world.store.values);
}

/// A log entry is as large as its operations, whatever the cells hold.
#[test]
fn entry_size_is_independent_of_cell_size() {
    let mut world = world();
    let row = |number: usize| cell(&format!("{{t}}.{number}"));
    for number in 0..200 {
        let text = Change::Put(vec![b'x'; CELL_BYTES_MAX - number].into());
        world.change_cell(&opaque(&format!("put {number}")), &row(number), text).fresh();
    }
    let ends: Vec<_> = (0..200).map(|number| (row(number), expire(100))).collect();
    assert!(world.batch(&opaque("ends"), &ends).fresh().answer.applied);
    let more: Vec<_> = (1..200).map(|number| (row(number), append("y"))).collect();
    assert!(world.batch(&opaque("more"), &more).fresh().answer.applied);
    let over = [(row(199), append("z")), (row(1), append("z"))];
    assert_eq!(world.batch(&opaque("too much"), &over).rejected(), Rejection::CellTooLarge);
    for (_, _, entry) in world.log.iter().rev().take(2) {
        assert!(entry.len() < 200 * 40, "{} bytes", entry.len());
    }
    assert_eq!(world.replayed().store.values, world.store.values);
}

#[test]
fn replay_rejects_values_that_contradict_the_log() {
    let mut world = world();
    world.change_row(&opaque("1"), "a", put("text")).fresh();
    for (change, other) in [(append("s"), bytes("tex")), (Change::Expire(None), Value::Counter(4))] {
        let operation = Operation::single(None, cell("a"), change).unwrap();
        let mut decision = world.decide(&operation).fresh();
        let decided = decision.clone();
        decision.effects = None;
        let mut store = world.store.clone();
        complete(&operation, &mut decision, &mut store).unwrap();
        assert_eq!(decision, decided);
        decision.effects = None;
        for wrong in [Some(other), None] {
            store.store(&cell("a"), wrong);
            let completed = complete(&operation, &mut decision, &mut store);
            assert_eq!(completed, Err(RecomputeError::Contradicted));
        }
        assert_eq!(complete(&operation, &mut decision, &mut Unreadable), Err(RecomputeError::Read("broken")));
    }
}

/// A store that cannot be read.
struct Unreadable;

impl StateReader for Unreadable {
    type Error = &'static str;

    fn value(&mut self, _: &Cell) -> Result<Option<Value>, Self::Error> {
        Err("broken")
    }

    fn dedup_record(
        &mut self,
        _: IdKey,
        _: impl Iterator<Item = Generation>,
    ) -> Result<Option<DedupRecord>, Self::Error> {
        Err("broken")
    }
}

fn any_change() -> impl Strategy<Value = Change> {
    let small = prop::sample::select(vec!["", "0", "7", "-", "x", "text"]);
    let long = (CELL_BYTES_MAX / 3..CELL_BYTES_MAX / 2).prop_map(|len| vec![b'1'; len]);
    let text = prop_oneof![9 => small.prop_map(|text| text.as_bytes().to_vec()), 1 => long];
    let end = || prop_oneof![1 => Just(None), 5 => (0..400u64).prop_map(|at| Some(START + at))];
    let held = (prop_oneof![(-3..9i64).prop_map(Value::Counter), Just(bytes("x"))], end());
    prop_oneof![
        2 => (-9..9i64).prop_map(Change::Add),
        1 => (-9..9i64).prop_map(|delta| within(delta, Some(-5), Some(50))),
        1 => (-9..99i64).prop_map(Change::Set),
        1 => Just(Change::Reset),
        1 => Just(Change::Delete),
        1 => text.clone().prop_map(|text| Change::Put(text.into())),
        4 => text.prop_map(|text| Change::Append(text.into())),
        4 => end().prop_map(Change::Expire),
        1 => Just(Change::Check(Check::Present)),
        1 => Just(Change::Check(Check::Absent)),
        1 => held.prop_map(|(value, end)| Change::Check(Check::Holds(value.lasting(end)))),
        2 => (0..400u64, end()).prop_map(|(min, max)| {
            Change::Check(Check::ExpiresWithin { min: START + min, max: max.unwrap_or(u64::MAX) })
        }),
    ]
}

/// The state after an entry.
type After = (Partition, Store);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Replaying entries on top of any earlier state gives the decided state, for any changes and several
    /// operations in one entry; also if expired values are dropped before.
    #[test]
    fn replay_gives_the_decided_state(
        entries in prop::collection::vec(
            (0..40u64, prop::collection::vec(prop::collection::vec((0..3u8, any_change()), 1..5), 1..4)),
            1..30,
        ),
        from: prop::sample::Index,
        tidied: bool,
    ) {
        let world = world();
        let table = world.table();
        let mut now: After = (Partition::new(cell("{t}.0").partition()), Store::default());
        let (mut log, mut afters, mut millis) = (Vec::new(), vec![now.clone()], 0);
        for (wait, operations) in entries {
            millis += wait;
            let (partition, store) = &mut now;
            let (step, mut bytes, mut most) = (partition.next_step(at(millis)), Vec::new(), 16);
            log_entry::begin(step, &mut bytes);
            partition.advance(step).unwrap();
            for changes in operations {
                let changes = changes.into_iter().map(|(row, change)| (cell(&format!("{{t}}.{row}")), change));
                let operation = Operation::batch(None, changes.collect()).unwrap();
                let hashes = hashes(&operation);
                let Ok(verdict) = partition.decide(step, table, &operation, hashes, store);
                if let Verdict::Fresh(decision) = verdict {
                    log_entry::push(&operation, &decision, &mut bytes);
                    most += operation.size_max();
                    prop_assert!(bytes.len() <= most);
                    partition.apply(table, &operation, hashes, &decision, store).unwrap();
                }
            }
            log.push((step.slot, bytes));
            afters.push(now.clone());
        }
        let from = from.index(afters.len());
        let mut again = afters[from].clone();
        let visible = |(partition, store): &After| -> BTreeMap<Cell, Value> {
            let millis = partition.time().as_nanos() / 1_000_000;
            let visible = |(cell, value): (&Cell, &Value)| Some((cell.clone(), value.clone().at(millis)?));
            store.values.iter().filter_map(visible).collect()
        };
        if tidied {
            again.1.values = visible(&again).into_iter().collect();
        }
        for ((slot, bytes), after) in log.iter().zip(&afters[1..]).skip(from) {
            replay(table, &mut again.0, &mut again.1, *slot, bytes);
            prop_assert_eq!(&again.0, &after.0);
            prop_assert_eq!(visible(&again), visible(after));
            prop_assert!(tidied || again.1.values == after.1.values);
        }
    }
}

#[test]
fn rows_with_the_same_tag_are_in_the_same_partition() {
    let partition = |row: &str| SECRET.partition(TABLE, row.as_bytes());
    assert_eq!(partition("{user-7}.a"), partition("user-7"));
    // `#` is the number of the row.
    for (rows, together) in [
        ("{user-7}.#", true),
        ("x#{user-7}y", true),
        ("{}#", false),
        ("{#", false),
        ("}{#", false),
        ("{#}.a", false),
    ] {
        let row = |number: u32| rows.replace('#', &number.to_string());
        let partitions: BTreeSet<_> = (0..100).map(|number| partition(&row(number))).collect();
        assert!(if together { partitions.len() == 1 } else { partitions.len() > 50 }, "{rows}");
    }
}
