//! Changes that look at what a cell holds: checks, ends of time, appending.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use jeton_core::limits::CELL_BYTES_MAX;
use jeton_core::{Change, Check, Rejection, Secret, TableId, Value};

fn world() -> World {
    World::new(settings())
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().into())
}

fn put(text: &str) -> Change {
    Change::Put(text.as_bytes().into())
}

fn append(text: &str) -> Change {
    Change::Append(text.as_bytes().into())
}

#[test]
fn a_check_lets_an_operation_pass_or_refuses_it_for_good() {
    let mut world = world();
    let a = cell("a");
    let if_absent = [(a.clone(), Change::Check(Check::Absent)), (a.clone(), put("first"))];
    assert!(world.batch(&opaque("1"), &if_absent).fresh().answer.applied);
    assert_eq!(world.value("a"), Some(bytes("first")));
    assert!(!world.batch(&opaque("2"), &if_absent).fresh().answer.applied);
    world.change_row(&opaque("3"), "a", Change::Delete).fresh();
    // Refused once, refused always: whoever asks again under that id was told no.
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
fn a_check_alone_changes_nothing_and_sees_what_came_before_it() {
    let mut world = world();
    assert!(world.change_row(&opaque("1"), "a", Change::Check(Check::Absent)).fresh().answer.applied);
    assert_eq!(world.value("a"), None);
    // Whatever the cell holds, it goes on holding it.
    world.change_row(&opaque("put"), "b", put("text")).fresh();
    world.change_row(&opaque("end"), "b", Change::Expire(Some(START + 9))).fresh();
    world.change_row(&opaque("check"), "b", Change::Check(Check::Present)).fresh();
    assert_eq!(world.value("b"), Some(bytes("text").lasting(Some(START + 9))));
    let a = cell("a");
    let changes = [
        (a.clone(), Change::Set(3)),
        (a.clone(), Change::Check(Check::Holds(Value::Counter(3)))),
        (a.clone(), Change::Add(4)),
    ];
    let answer = world.batch(&opaque("2"), &changes).fresh().answer;
    assert_eq!((answer.applied, answer.values.as_slice()), (true, &[Some(3), Some(3), Some(7)][..]));
    assert_eq!(world.value("a"), Some(Value::Counter(7)));
}

#[test]
fn a_value_that_expires_is_there_until_then_and_gone_after() {
    let mut world = world();
    world.add(&opaque("1"), 5).applied();
    assert_eq!(world.change_row(&opaque("2"), "a", Change::Expire(Some(START + 100))).applied(), 5);
    assert_eq!(world.at(99).add(&opaque("3"), 1).applied(), 6, "adding keeps the value and its end");
    assert_eq!(world.value("a"), Some(Value::Counter(6).lasting(Some(START + 100))));
    assert_eq!(world.at(100).add(&opaque("4"), 1).applied(), 1, "it began anew");
    assert_eq!(world.value("a"), Some(Value::Counter(1)), "and without an end");
}

#[test]
fn bounds_checks_and_ends_take_what_is_over_for_nothing() {
    let mut world = world();
    let ends = |at: u64| [(cell("a"), put("text")), (cell("a"), Change::Expire(Some(START + at)))];
    world.batch(&opaque("1"), &ends(10)).fresh();
    assert_eq!(world.at(9).add(&opaque("2"), 1).rejected(), Rejection::NotACounter);
    assert_eq!(world.at(10).change_row(&opaque("3"), "a", Change::Expire(None)).refused(), [Some(0)]);
    assert_eq!(world.change_row(&opaque("4"), "a", within(-1, Some(0), None)).refused(), [Some(0)]);
    assert!(!world.change_row(&opaque("5"), "a", Change::Check(Check::Present)).fresh().answer.applied);
    assert_eq!(world.change_row(&opaque("6"), "a", append("7")).applied(), 1);
    assert_eq!(world.value("a"), Some(Value::Counter(7)));
}

#[test]
fn an_end_can_be_moved_taken_away_and_lies_in_the_past_too() {
    let mut world = world();
    world.change_row(&opaque("1"), "a", put("text")).fresh();
    world.change_row(&opaque("2"), "a", Change::Expire(Some(START + 10))).fresh();
    world.change_row(&opaque("3"), "a", Change::Expire(Some(START + 20))).fresh();
    assert_eq!(world.at(15).value("a"), Some(bytes("text").lasting(Some(START + 20))));
    world.change_row(&opaque("4"), "a", Change::Expire(None)).fresh();
    assert_eq!(world.at(30).change_row(&opaque("5"), "a", append("s")).applied(), 5);
    world.change_row(&opaque("6"), "a", Change::Expire(Some(1))).fresh();
    assert!(world.change_row(&opaque("7"), "a", Change::Check(Check::Absent)).fresh().answer.applied);
    // What is written anew has no end, unless it is given one.
    world.change_row(&opaque("8"), "a", Change::Expire(Some(START + 99))).refused();
    world.batch(&opaque("9"), &[(cell("a"), Change::Set(1)), (cell("a"), Change::Expire(Some(START + 99)))]);
    world.change_row(&opaque("10"), "a", Change::Set(2)).applied();
    assert_eq!(world.at(200).add(&opaque("11"), 1).applied(), 3);
}

#[test]
fn appending_makes_text_and_numbers_as_they_are_written() {
    let mut world = world();
    assert_eq!(world.change_row(&opaque("1"), "a", append("1")).applied(), 1);
    assert_eq!(world.add(&opaque("2"), 11).applied(), 12);
    assert_eq!(world.change_row(&opaque("3"), "a", append("34")).applied(), 4);
    assert_eq!(world.add(&opaque("4"), 0).applied(), 1234);
    assert_eq!(world.change_row(&opaque("5"), "a", append("x")).applied(), 5);
    assert_eq!(world.value("a"), Some(bytes("1234x")));
    let rest = CELL_BYTES_MAX - 5;
    assert_eq!(
        world.change_row(&opaque("6"), "a", append(&"y".repeat(rest))).applied(),
        CELL_BYTES_MAX as i64
    );
    assert_eq!(world.change_row(&opaque("7"), "a", append("z")).rejected(), Rejection::CellTooLarge);
}

#[test]
fn what_was_kept_is_replayed() {
    let mut world = world();
    world.add(&opaque("1"), 5).applied();
    world.change_row(&opaque("2"), "a", Change::Expire(Some(START + 100))).applied();
    world.add(&opaque("3"), 2).applied();
    world.change_row(&opaque("4"), "b", append("text")).applied();
    world.change_row(&opaque("5"), "b", Change::Expire(Some(START + 50))).fresh();
    world
        .batch(&opaque("6"), &[(cell("b"), Change::Check(Check::Present)), (cell("b"), append("s"))])
        .fresh();
    let again = world.replayed();
    assert_eq!(again.value("a"), Some(Value::Counter(7).lasting(Some(START + 100))));
    assert_eq!(again.value("b"), Some(bytes("texts").lasting(Some(START + 50))));
    assert_eq!(again.store.values, world.store.values);
}

#[test]
fn rows_with_the_same_tag_are_in_the_same_partition() {
    let secret = Secret::new([3; 16]);
    let partition = |row: &str| secret.partition(TableId(1), row.as_bytes());
    let many = |rows: &dyn Fn(u32) -> String| {
        let all: std::collections::BTreeSet<_> = (0..100).map(|number| partition(&rows(number))).collect();
        all.len()
    };
    assert_eq!(many(&|number| format!("{{user-7}}.{number}")), 1);
    assert_eq!(many(&|number| format!("x{number}{{user-7}}y")), 1);
    assert_eq!(partition("{user-7}.a"), partition("user-7"));
    for untagged in ["{}", "{", "}{"] {
        assert!(many(&|number| format!("{untagged}{number}")) > 50, "{untagged}");
    }
    assert!(many(&|number| format!("{{{number}}}.a")) > 50);
}
