//! The scope of an id: one routing key, wherever its rows are stored.

use crate::common::*;

/// The hash tag of a row, or the row.
fn routing_key(row: &str) -> &str {
    let tag = row.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(row)
}

/// Two rows: any, with one hash tag, or in one partition.
fn any_rows() -> impl Strategy<Value = (String, String)> {
    let row = || "[ab{}\0]{1,4}";
    prop_oneof![
        (row(), row()),
        (row(), row(), "[ab\0]{1,3}").prop_map(|(one, other, tag)| {
            (format!("{{{tag}}}{one}"), format!("{}{{{tag}}}{other}", other.replace(['{', '}'], "")))
        }),
        row().prop_map(|one| {
            let home = cell(&one).partition();
            let other = (0..).map(|n: u32| n.to_string()).find(|row| cell(row).partition() == home);
            (one, other.unwrap())
        }),
    ]
}

fn any_new_id() -> impl Strategy<Value = OpId> {
    (0..5u8, 1..1_000u64).prop_map(|(format, number)| match format {
        0 => uuid7(0, number),
        1 => OpId::Ulid(u128::from(START) << 80 | u128::from(number)),
        2 => sequenced("client", 1, number),
        3 => OpId::event("source", &number.to_string(), START).unwrap(),
        _ => opaque(&number.to_string()),
    })
}

proptest! {
    /// The second result follows from the equality of routing keys and payloads alone.
    #[test]
    fn the_result_does_not_depend_on_the_partition(
        (one, other) in any_rows(), id in any_new_id(), (first, second) in (1..3i64, 1..3i64),
    ) {
        let mut world = world();
        let (here, there) = (cell(&one), cell(&other));
        let answer = world.change_cell(&id, &here, Change::Add(first)).fresh().answer;
        let verdict = world.change_cell(&id, &there, Change::Add(second));
        let expected = match (routing_key(&one) == routing_key(&other), (&one, first) == (&other, second)) {
            (true, true) => {
                prop_assert_eq!(verdict, Verdict::Replay(answer.clone()));
                None
            }
            (true, false) => {
                prop_assert_eq!(verdict, Verdict::Rejected(Rejection::Mismatch));
                None
            }
            (false, _) => Some(verdict.fresh().answer),
        };
        world.checkpoint();
        for mut world in [world.recovered(), world.replayed(), world] {
            prop_assert_eq!(&world.change_cell(&id, &here, Change::Add(first)).replayed(), &answer);
            if let Some(expected) = &expected {
                prop_assert_eq!(&world.change_cell(&id, &there, Change::Add(second)).replayed(), expected);
            }
            let known = expected.clone().unwrap_or_else(|| answer.clone());
            prop_assert_eq!(world.id_status(&there, &id), IdStatus::Yes(known));
            prop_assert_eq!(world.id_status(&cell("never written"), &id), IdStatus::No);
        }
    }
}
