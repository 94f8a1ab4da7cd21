//! Clients that number their operations: order, windows, epochs, leases, and nothing applied twice.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use jeton_core::limits::{SESSION_WINDOW, SESSIONS_MAX};
use jeton_core::{Client, Format, Formats, Partition, Rejection, TableSettings, Verdict};
use proptest::prelude::*;

/// The lease of `settings()`.
const LEASE: u64 = 60_000;

/// The skew of `settings()`.
const SKEW: u64 = 5_000;

fn world() -> World {
    World::new(settings())
}

#[track_caller]
fn unknown_session(verdict: Verdict) -> u64 {
    match verdict.rejected() {
        Rejection::UnknownSession { floor } => floor,
        other => panic!("{other:?}"),
    }
}

#[test]
fn operations_count_in_any_order_and_each_once() {
    let mut world = world();
    for (at, seq) in [1, 2, 3, 9, 7, 8, 4].into_iter().enumerate() {
        assert_eq!(world.add(&sequenced("till", 1, seq), 1).applied(), at as i64 + 1);
    }
    for (at, seq) in [1, 2, 3, 9, 7, 8, 4].into_iter().enumerate() {
        let answer = world.add(&sequenced("till", 1, seq), 1).replayed();
        assert_eq!((answer.slot, answer.values.as_slice()), (at as u64 + 1, &[Some(at as i64 + 1)][..]));
    }
    assert_eq!(world.counter("a"), 7);
}

#[test]
fn a_sequence_number_names_one_operation() {
    let mut world = world();
    world.add(&sequenced("till", 1, 1), 1).applied();
    assert_eq!(world.add(&sequenced("till", 1, 1), 2).rejected(), Rejection::Mismatch);
    assert_eq!(world.counter("a"), 1);
}

#[test]
fn the_window_ends_exactly_at_its_low_water_mark() {
    let mut world = world();
    let first = world.add(&sequenced("till", 1, 10), 1).fresh().answer;
    let high = 10 + SESSION_WINDOW - 1;
    world.add(&sequenced("till", 1, high), 1).applied();
    // 10 is the lowest number of the window; 9 is below it, though it was never used.
    assert_eq!(world.add(&sequenced("till", 1, 10), 1).replayed(), first);
    assert_eq!(world.add(&sequenced("till", 1, 9), 1).rejected(), Rejection::Superseded { low_water: 10 });
    world.add(&sequenced("till", 1, 11), 1).applied();
    // One more moves the low-water mark.
    world.add(&sequenced("till", 1, high + 1), 1).applied();
    assert_eq!(world.add(&sequenced("till", 1, 10), 1).rejected(), Rejection::Superseded { low_water: 11 });
    world.add(&sequenced("till", 1, 11), 1).replayed();
}

#[test]
fn the_largest_sequence_numbers_work() {
    let mut world = world();
    let epoch = START + SKEW;
    world.add(&sequenced("till", epoch, u64::MAX), 1).applied();
    world.add(&sequenced("till", epoch, u64::MAX), 1).replayed();
    world.add(&sequenced("till", epoch, u64::MAX - SESSION_WINDOW + 1), 1).applied();
    let low_water = u64::MAX - SESSION_WINDOW + 1;
    let below = world.add(&sequenced("till", epoch, low_water - 1), 1).rejected();
    assert_eq!(below, Rejection::Superseded { low_water });
}

#[test]
fn an_epoch_is_at_most_now_plus_skew() {
    let mut world = world();
    for epoch in [START + SKEW + 1, u64::MAX] {
        let rejection = world.add(&sequenced("till", epoch, 1), 1).rejected();
        assert_eq!(rejection, Rejection::EpochAhead { latest: START + SKEW });
        assert!(rejection.to_string().contains(&(START + SKEW).to_string()), "{rejection}");
    }
    assert!(world.partition(&cell("a")).sessions().is_empty(), "nothing is remembered");
    world.add(&sequenced("till", START + SKEW, 1), 1).applied();
    // Also for a known client, and the attempt changes nothing.
    let ahead = world.at(10).add(&sequenced("till", START + SKEW + 11, 1), 1).rejected();
    assert_eq!(ahead, Rejection::EpochAhead { latest: START + SKEW + 10 });
    world.add(&sequenced("till", START + SKEW, 2), 1).applied();
    world.at(11).add(&sequenced("till", START + SKEW + 11, 1), 1).applied();
    assert_eq!(world.counter("a"), 3);
}

#[test]
fn one_client_cannot_lock_out_others() {
    let mut world = world();
    for epoch in [u64::MAX, START + SKEW] {
        world.add(&sequenced("hostile", epoch, 1), 1);
    }
    world.at(LEASE + 1).tidy();
    let late = unknown_session(world.add(&sequenced("honest", 1, 1), 1));
    assert_eq!(late, START + SKEW, "the floor is told");
    world.add(&sequenced("honest", late + 1, 1), 1).applied();
    world.add(&sequenced("another", START + LEASE + 1, 1), 1).applied();
}

#[test]
fn now_is_above_the_floor_for_any_lease_and_skew() {
    // By its lease alone it would expire long before the current time reaches the epoch.
    let mut world = World::new(TableSettings { session_lease: ms(1), ..settings() });
    world.add(&sequenced("early", START + SKEW, 1), 1).applied();
    for later in [2, 10, SKEW, SKEW + 1, SKEW + 2] {
        world.at(later).tidy();
        world.add(&sequenced(&format!("at-{later}"), START + later, 1), 1).applied();
    }
    assert_eq!(unknown_session(world.add(&sequenced("early", START + SKEW, 1), 1)), START + SKEW);
}

#[test]
fn a_running_epoch_continues_under_a_narrower_skew() {
    let mut world = world();
    world.add(&sequenced("till", START + SKEW, 1), 1).applied();
    world.change(TableSettings { skew: ms(0), ..settings() });
    world.add(&sequenced("till", START + SKEW, 1), 1).replayed();
    world.add(&sequenced("till", START + SKEW, 2), 1).applied();
    let other = world.add(&sequenced("other", START + 1, 1), 1).rejected();
    assert_eq!(other, Rejection::EpochAhead { latest: START });
}

/// Entries that were decided before epochs had a limit.
#[test]
fn an_entry_with_a_larger_epoch_is_replayed() {
    let mut world = world();
    world.add(&sequenced("till", 1, 1), 1).applied();
    let (id, slot, entry) = world.log.pop().unwrap();
    let text = b"\x04till";
    let place = entry.windows(text.len()).position(|bytes| bytes == text).unwrap() + text.len();
    let mut large = entry[..place].to_vec();
    large.extend_from_slice(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    large.extend_from_slice(&entry[place + 1..]);
    world.log.push((id, slot, large));
    let mut world = world.replayed();
    world.add(&sequenced("till", u64::MAX, 1), 1).replayed();
    world.add(&sequenced("till", u64::MAX, 2), 1).applied();
    world.at(1_000 * LEASE).tidy();
    world.add(&sequenced("honest", START + 1_000 * LEASE, 1), 1).applied();
    world.add(&sequenced("till", u64::MAX, 1), 1).replayed();
    assert_eq!(world.replayed().partitions, world.partitions);
}

#[test]
fn a_higher_epoch_fences_lower_ones() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.add(&sequenced("till", 6, 1), 1).applied();
    for (epoch, seq) in [(5, 1), (5, 2), (0, 1)] {
        let rejection = world.add(&sequenced("till", epoch, seq), 1).rejected();
        assert_eq!(rejection, Rejection::Fenced { epoch: 6 });
    }
    world.add(&sequenced("till", 6, 1), 1).replayed();
    world.add(&sequenced("till", 6, 2), 1).applied();
    assert_eq!(world.counter("a"), 3);
}

#[test]
fn a_new_epoch_starts_at_any_number() {
    let mut world = world();
    world.add(&sequenced("till", 1, 5_000), 1).applied();
    world.add(&sequenced("till", 2, 1), 1).applied();
    world.add(&sequenced("till", 2, 2), 1).applied();
}

#[test]
fn clients_are_independent() {
    let mut world = world();
    world.add(&sequenced("till", 9, 1), 1).applied();
    world.add(&sequenced("tills", 1, 1), 1).applied();
    world.add(&sequenced("Till", 1, 1), 1).applied();
    assert_eq!(world.partition(&cell("a")).sessions().len(), 3);
}

#[test]
fn rejected_operations_leave_sessions_unchanged() {
    let mut world = world();
    world.change_row(&opaque("full"), "a", jeton_core::Change::Set(i64::MAX)).applied();
    assert_eq!(world.add(&sequenced("till", 1, 400), 1).rejected(), Rejection::Overflow);
    assert!(world.partition(&cell("a")).sessions().is_empty());
    world.add(&sequenced("till", 1, 1), -1).applied();
}

#[test]
fn a_session_lasts_to_the_last_millisecond_of_its_lease() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(LEASE).add(&sequenced("till", 5, 1), 1).replayed();
    assert_eq!(unknown_session(world.at(LEASE + 1).add(&sequenced("till", 5, 1), 1)), 5);
    assert_eq!(unknown_session(world.add(&sequenced("till", 5, 2), 1)), 5);
    assert_eq!(unknown_session(world.add(&sequenced("till", 4, 2), 1)), 5);
}

#[test]
fn every_operation_renews_the_lease() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(LEASE).add(&sequenced("till", 5, 2), 1).applied();
    world.at(2 * LEASE).add(&sequenced("till", 5, 1), 1).replayed();
    world.change(TableSettings { session_lease: ms(10 * LEASE), ..settings() });
    world.add(&sequenced("till", 5, 3), 1).applied();
    world.at(12 * LEASE).add(&sequenced("till", 5, 1), 1).replayed();
    unknown_session(world.at(12 * LEASE + 1).add(&sequenced("till", 5, 1), 1));
}

#[test]
fn an_expired_client_needs_a_higher_epoch() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(LEASE + 1).tidy();
    assert!(world.partition(&cell("a")).sessions().is_empty());
    for later in [LEASE + 1, 1_000 * LEASE] {
        world.at(later);
        assert_eq!(unknown_session(world.add(&sequenced("till", 5, 1), 1)), 5);
        assert_eq!(unknown_session(world.add(&sequenced("till", 0, 1), 1)), 5);
        // The client's name is not recorded any more: the epoch is spent for all clients.
        assert_eq!(unknown_session(world.add(&sequenced("somebody", 5, 1), 1)), 5);
    }
    world.add(&sequenced("till", 6, 1), 1).applied();
    world.add(&sequenced("till", 6, 1), 1).replayed();
    assert_eq!(world.add(&sequenced("till", 5, 1), 1).rejected(), Rejection::Fenced { epoch: 6 });
}

#[test]
fn the_floor_is_the_highest_expired_epoch() {
    let mut world = world();
    for (client, epoch) in [("a", 3), ("b", 9), ("c", 6)] {
        world.add(&sequenced(client, epoch, 1), 1).applied();
    }
    world.at(LEASE + 1).tidy();
    world.add(&sequenced("d", 10, 1), 1).applied();
    world.at(3 * LEASE).tidy();
    assert_eq!(unknown_session(world.add(&sequenced("a", 10, 1), 1)), 10);
    // An expired session with a lower epoch does not lower it.
    world.add(&sequenced("e", 11, 1), 1).applied();
    assert_eq!(unknown_session(world.add(&sequenced("b", 9, 1), 1)), 10);
}

#[test]
fn epoch_zero_is_valid() {
    let mut world = world();
    world.add(&sequenced("till", 0, 1), 1).applied();
    world.add(&sequenced("till", 0, 1), 1).replayed();
    world.at(LEASE + 1).tidy();
    assert_eq!(unknown_session(world.add(&sequenced("till", 0, 1), 1)), 0);
}

#[test]
fn a_full_partition_accepts_a_client_once_one_is_idle() {
    let mut world = world();
    for number in 0..SESSIONS_MAX {
        world.add(&sequenced(&format!("client-{number}"), 1, 1), 1).applied();
    }
    let late = sequenced("late", 1, 1);
    assert_eq!(world.add(&late, 1).rejected(), Rejection::Capacity { what: "sessions" });
    // Known clients continue.
    world.at(LEASE).add(&sequenced("client-0", 1, 2), 1).applied();
    assert_eq!(world.add(&late, 1).rejected(), Rejection::Capacity { what: "sessions" });
    world.at(LEASE + 1).add(&sequenced("late", 2, 1), 1).applied();
    assert_eq!(unknown_session(world.add(&sequenced("client-1", 1, 1), 1)), 1);
    world.add(&sequenced("client-0", 1, 1), 1).replayed();
}

#[test]
fn the_earliest_expired_session_is_evicted() {
    let mut world = world();
    let name = |number: usize| format!("client-{number:04}");
    // Two of each millisecond, the later name first.
    for number in 0..SESSIONS_MAX {
        let (client, millis) = (name(number ^ 1), number as u64 / 2);
        world.at(millis).add(&sequenced(&client, 1, 1), 1).applied();
    }
    world.checkpoint();
    let mut recovered = world.recovered();
    for world in [&mut world, &mut recovered] {
        world.at(2 * LEASE);
        // Responses do not show which session expired; the rows to be stored do.
        for (late, forgotten) in [0, 1, 2].into_iter().enumerate() {
            world.add(&sequenced(&format!("late-{late}"), 2, 1), 1).applied();
            let sessions = world.partition(&cell("a")).sessions();
            assert_eq!(sessions.len(), SESSIONS_MAX);
            let gone: Vec<_> = sessions.take_changed().into_iter().filter(|(_, row)| row.is_none()).collect();
            let gone: Vec<&str> = gone.iter().map(|(client, _)| &*client.name).collect();
            assert_eq!(gone, [name(forgotten)]);
        }
    }
    assert_eq!(recovered.partitions, world.partitions);
}

#[test]
fn sessions_are_restored_from_their_rows() {
    let mut world = world();
    for seq in [1, 2, 300, 299, 400] {
        world.at(seq).add(&sequenced("till", 1, seq), 7).applied();
    }
    world.change_row(&sequenced("till", 1, 401), "a", within(-100, Some(0), None)).refused();
    let a = cell("a");
    world
        .batch(
            &sequenced("till", 1, 402),
            &[(a.clone(), jeton_core::Change::Delete), (a, jeton_core::Change::Set(3))],
        )
        .fresh();
    world.add(&sequenced("other", 8, 1), 1).applied();
    world.at(LEASE + 500);
    world.add(&sequenced("third", 9, 1), 1).applied();
    world.tidy();
    world.add(&sequenced("fourth", 10, 1), 1).applied();
    world.checkpoint();
    let recovered = world.recovered();
    assert_eq!(recovered.partitions, world.partitions);
    assert!(world.partition(&cell("a")).sessions().take_changed().is_empty(), "they count as stored");
}

#[test]
fn only_changed_sessions_are_stored_again() {
    let mut world = world();
    world.add(&sequenced("a", 1, 1), 1).applied();
    world.add(&sequenced("b", 1, 1), 1).applied();
    let sessions = |world: &mut World| world.partition(&cell("a")).sessions().take_changed();
    let names = |rows: Vec<(Client, Option<Vec<u8>>)>| -> Vec<(String, bool)> {
        rows.into_iter().map(|(client, row)| (client.name.to_string(), row.is_some())).collect()
    };
    assert_eq!(names(sessions(&mut world)), [("a".to_string(), true), ("b".to_string(), true)]);
    world.at(LEASE).add(&sequenced("b", 1, 2), 1).applied();
    world.add(&sequenced("b", 1, 2), 1).replayed();
    world.at(LEASE + 1).tidy();
    assert_eq!(names(sessions(&mut world)), [("a".to_string(), false), ("b".to_string(), true)]);
    assert!(sessions(&mut world).is_empty());
}

#[test]
fn damaged_rows_are_refused() {
    let mut world = world();
    for seq in 1..4 {
        world.add(&sequenced("till", 1, seq), 1).applied();
    }
    let id = cell("a").partition();
    let partition = world.partition(&cell("a"));
    let rows = partition.sessions().take_changed();
    let (client, row) = (rows[0].0.clone(), rows[0].1.clone().unwrap());
    let mut empty = Partition::new(id);
    for len in 0..row.len() {
        assert!(empty.sessions().restore(client.clone(), &row[..len]).is_err(), "{len} bytes");
    }
    assert!(empty.sessions().restore(client.clone(), &[&row[..], &[0]].concat()).is_err());
    let whole = partition.encode();
    for len in 0..whole.len() {
        assert!(Partition::decode(id, &whole[..len]).is_err(), "{len} bytes");
    }
    assert!(Partition::decode(id, &[&whole[..], &[0]].concat()).is_err());
    // Floors of two tables: slot, time, count, then table and floor. Of a duplicate the lower would stay.
    assert!(Partition::decode(id, &[3, 0, 2, 1, 9, 2, 5]).is_ok());
    for tables in [[1, 1], [2, 1]] {
        assert!(Partition::decode(id, &[3, 0, 2, tables[0], 9, tables[1], 5]).is_err(), "{tables:?}");
    }
    // Numbers that do not rise, or lie above the highest: epoch, high, time, lease, count, then number and
    // result.
    for numbers in [[2, 2], [2, 1], [1, 9]] {
        let answer = [&[1u8; 8][..], &[1, 1, 2, 0]].concat();
        let mut row = vec![1, 3, 0, 0, 2];
        for number in numbers {
            row.push(number);
            row.push(answer.len() as u8);
            row.extend_from_slice(&answer);
        }
        assert!(empty.sessions().restore(client.clone(), &row).is_err(), "{numbers:?}");
    }
}

/// Events of sessions.
#[derive(Debug, Clone)]
enum Event {
    Submit {
        client: u8,
        epoch: u64,
        seq: u64,
    },
    /// Repeats the operation that was submitted this many events ago.
    Retry {
        back: usize,
    },
    Wait {
        millis: u64,
    },
    Lease {
        millis: u64,
    },
    Forget,
    Checkpoint,
    Crash {
        with_checkpoint: bool,
    },
}

/// Epochs that are a time: during the run, or later than its end.
fn any_late_epoch() -> impl Strategy<Value = u64> {
    prop_oneof![START..START + 2 * LEASE, START..START + 40 * LEASE, Just(u64::MAX - 100_000)]
}

fn any_event() -> impl Strategy<Value = Event> {
    let seqs = prop_oneof![1..6u64, 1..600u64, SESSION_WINDOW - 2..SESSION_WINDOW + 8];
    prop_oneof![
        12 => (0..4u8, 0..6u64, seqs).prop_map(|(client, epoch, seq)| Event::Submit { client, epoch, seq }),
        2 => (0..4u8, any_late_epoch(), 1..6u64).prop_map(|(client, epoch, seq)| Event::Submit { client, epoch, seq }),
        8 => (1..30usize).prop_map(|back| Event::Retry { back }),
        4 => prop_oneof![0..100u64, 0..2 * LEASE].prop_map(|millis| Event::Wait { millis }),
        1 => prop::sample::select(vec![1, LEASE / 2, 4 * LEASE]).prop_map(|millis| Event::Lease { millis }),
        2 => Just(Event::Forget),
        1 => Just(Event::Checkpoint),
        1 => any::<bool>().prop_map(|with_checkpoint| Event::Crash { with_checkpoint }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Against an unbounded memory: an applied operation is never applied again, a retry gets its first
    /// result or a rejection, and a client with an epoch above all used ones is accepted, unless it is above
    /// the current time.
    #[test]
    fn nothing_is_ever_applied_twice(events in prop::collection::vec(any_event(), 1..150)) {
        let numbered = TableSettings { formats: Formats::only(Format::Sequenced), ..settings() };
        let mut world = World::new(numbered.clone());
        let mut applied = BTreeMap::new();
        let mut asked = Vec::new();
        let mut epochs = BTreeSet::new();
        let mut millis = 0;
        for event in events {
            let (client, epoch, seq) = match event {
                Event::Submit { client, epoch, seq } => (client, epoch + millis / (20 * LEASE), seq),
                Event::Retry { back } if back <= asked.len() => asked[asked.len() - back],
                Event::Retry { .. } => continue,
                Event::Wait { millis: more } => {
                    millis += more;
                    world.at(millis);
                    continue;
                }
                Event::Lease { millis } => {
                    let change = world.table().change(
                        TableSettings { session_lease: ms(millis), ..numbered.clone() },
                        world.now,
                    );
                    if let Ok(table) = change {
                        world.catalog = world.catalog.replaced(table);
                    }
                    continue;
                }
                Event::Forget => {
                    world.tidy();
                    continue;
                }
                Event::Checkpoint => {
                    world.checkpoint();
                    continue;
                }
                Event::Crash { with_checkpoint } => {
                    world = if with_checkpoint { world.recovered() } else { world.replayed() };
                    continue;
                }
            };
            asked.push((client, epoch, seq));
            let verdict = world.add(&sequenced(&format!("client-{client}"), epoch, seq), 1);
            match (applied.get(&(client, epoch, seq)), verdict) {
                (None, Verdict::Fresh(decision)) => {
                    prop_assert!(epoch <= START + millis + SKEW, "epoch {} is taken at {}", epoch, millis);
                    applied.insert((client, epoch, seq), decision.answer);
                    epochs.insert(epoch);
                }
                (Some(first), Verdict::Replay(again)) => prop_assert_eq!(first, &again),
                (_, Verdict::Rejected(Rejection::EpochAhead { latest })) => {
                    prop_assert_eq!(latest, START + millis + SKEW);
                    prop_assert!(epoch > latest, "epoch {} is refused, though {} is possible", epoch, latest);
                }
                (_, Verdict::Rejected(rejection)) => {
                    let above = epochs.last().is_none_or(|highest| epoch > *highest);
                    prop_assert!(!above, "a session of epoch {} is refused: {:?}", epoch, rejection);
                }
                (first, verdict) => {
                    prop_assert!(false, "{:?} was {:?} and now is {:?}", (client, epoch, seq), first, verdict);
                }
            }
        }
        // An unknown client can begin with the current time.
        prop_assert!(is_fresh(&world.add(&sequenced("unknown", START + millis, 1), 1)));
        prop_assert_eq!(world.counter("a"), applied.len() as i64 + 1);
    }
}
