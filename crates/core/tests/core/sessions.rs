//! Clients that number their operations: order, windows, epochs, leases, and nothing applied twice.

use std::collections::{BTreeMap, BTreeSet};

use jeton_core::codec::Write as _;

use crate::common::*;

/// The lease of `settings()`.
const LEASE: u64 = WINDOW;

/// Asserts that the session is unknown and returns the floor.
#[track_caller]
fn floor(verdict: Verdict) -> u64 {
    let rejection = verdict.rejected();
    let Rejection::UnknownSession { floor } = rejection else { panic!("{rejection:?}") };
    floor
}

#[test]
fn operations_count_in_any_order_and_each_once() {
    let mut world = world();
    let numbers = [1, 2, 3, 9, 7, 8, 4];
    for (seq, count) in numbers.into_iter().zip(1..) {
        assert_eq!(world.add(&sequenced("till", 1, seq), 1).applied(), count);
    }
    for (seq, count) in numbers.into_iter().zip(1..) {
        let answer = world.add(&sequenced("till", 1, seq), 1).replayed();
        assert_eq!((answer.slot, answer.values.as_slice()), (count as u64, &[Some(count)][..]));
    }
    assert_eq!(world.counter("a"), 7);
}

#[test]
fn a_full_session_drops_its_lowest_number() {
    let (mut world, window) = (world(), SESSION_WINDOW as u64);
    let first = world.add(&sequenced("till", 1, 10), 1).fresh().answer;
    for seq in 11..10 + window {
        world.add(&sequenced("till", 1, seq), 1).applied();
    }
    // All results are recorded, but there is no room for a number below the lowest.
    assert_eq!(world.add(&sequenced("till", 1, 10), 1).replayed(), first);
    assert_eq!(world.add(&sequenced("till", 1, 9), 1).rejected(), Rejection::Superseded { low_water: 11 });
    world.add(&sequenced("till", 1, 10 + window), 1).applied();
    for mut world in [world.replayed(), world] {
        let dropped = world.add(&sequenced("till", 1, 10), 1).rejected();
        assert_eq!(dropped, Rejection::Superseded { low_water: 12 });
        world.add(&sequenced("till", 1, 11), 1).replayed();
    }
}

/// Gaps close nothing: only results take room.
#[test]
fn a_late_number_counts_while_there_is_room() {
    let mut world = world();
    for (seq, count) in [u64::MAX, 1_000, 1, 500].into_iter().zip(1..) {
        assert_eq!(world.add(&sequenced("till", 1, seq), 1).applied(), count);
        world.add(&sequenced("till", 1, seq), 1).replayed();
    }
}

#[test]
fn one_number_for_many_rows_counts_once_for_each() {
    for seq in [5, u64::MAX] {
        let (mut world, id) = (world(), sequenced("till", 1, seq));
        let rows = together(SESSION_WINDOW + 2);
        let (stored, beyond) = rows.split_at(SESSION_WINDOW);
        let mut add = |id: &OpId, cell: &Cell| world.change_cell(id, cell, Change::Add(1));
        stored.iter().for_each(|cell| assert_eq!(add(&id, cell).applied(), 1));
        for cell in beyond {
            let low_water = seq.saturating_add(1);
            assert_eq!(add(&id, cell).rejected(), Rejection::Superseded { low_water });
        }
        stored.iter().for_each(|cell| drop(add(&id, cell).replayed()));
        if seq < u64::MAX {
            // All results of the lowest number are dropped at once, so none of its rows counts again.
            add(&sequenced("till", 1, seq + 1), &rows[0]).applied();
            for cell in &rows {
                add(&id, cell).rejected();
            }
            add(&sequenced("till", 1, seq + 1), &rows[0]).replayed();
        }
        assert_eq!(world.replayed().partitions, world.partitions);
        world.checkpoint();
        assert_eq!(world.recovered().partitions, world.partitions);
    }
}

#[test]
fn an_epoch_is_at_most_now_plus_skew() {
    let mut world = world();
    for epoch in [START + SKEW + 1, u64::MAX] {
        let rejection = world.add(&sequenced("till", epoch, 1), 1).rejected();
        assert_eq!(rejection, Rejection::EpochAhead { latest: START + SKEW });
        assert!(rejection.to_string().contains(&(START + SKEW).to_string()), "{rejection}");
    }
    assert!(world.partition(&cell("a")).sessions().is_empty(), "no session is recorded");
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
    let floor = floor(world.add(&sequenced("honest", 1, 1), 1));
    assert_eq!(floor, START + SKEW);
    world.add(&sequenced("honest", floor + 1, 1), 1).applied();
    world.add(&sequenced("another", START + LEASE + 1, 1), 1).applied();
}

#[test]
fn now_is_above_the_floor_for_any_lease_and_skew() {
    // By its lease alone the session would expire long before the current time reaches its epoch.
    let mut world = World::new(TableSettings { session_lease: ms(1), ..settings() });
    world.add(&sequenced("early", START + SKEW, 1), 1).applied();
    for later in [2, 10, SKEW, SKEW + 1, SKEW + 2] {
        world.at(later).tidy();
        world.add(&sequenced(&format!("at-{later}"), START + later, 1), 1).applied();
    }
    assert_eq!(floor(world.add(&sequenced("early", START + SKEW, 1), 1)), START + SKEW);
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
    let large = [&entry[..place], &[255; 9], &[1], &entry[place + 1..]].concat();
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
    for (client, epoch) in [("till", 9), ("tills", 1), ("Till", 1)] {
        world.add(&sequenced(client, epoch, 1), 1).applied();
    }
    assert_eq!(world.partition(&cell("a")).sessions().len(), 3);
}

#[test]
fn rejected_operations_leave_sessions_unchanged() {
    let mut world = world();
    world.change_row(&opaque("full"), "a", Change::Set(i64::MAX)).applied();
    assert_eq!(world.add(&sequenced("till", 1, 400), 1).rejected(), Rejection::Overflow);
    assert!(world.partition(&cell("a")).sessions().is_empty());
    world.add(&sequenced("till", 1, 1), -1).applied();
}

#[test]
fn a_session_lasts_to_the_last_millisecond_of_its_lease() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(LEASE).add(&sequenced("till", 5, 1), 1).replayed();
    world.at(LEASE + 1);
    for (epoch, seq) in [(5, 1), (5, 2), (4, 2)] {
        assert_eq!(floor(world.add(&sequenced("till", epoch, seq), 1)), 5);
    }
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
    floor(world.at(12 * LEASE + 1).add(&sequenced("till", 5, 1), 1));
}

#[test]
fn an_expired_client_needs_a_higher_epoch() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(LEASE + 1).tidy();
    assert!(world.partition(&cell("a")).sessions().is_empty());
    for later in [LEASE + 1, 1_000 * LEASE] {
        // The client's name is not recorded any more, so the epoch is used up for all clients.
        for (client, epoch) in [("till", 5), ("till", 0), ("another", 5)] {
            assert_eq!(floor(world.at(later).add(&sequenced(client, epoch, 1), 1)), 5);
        }
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
    assert_eq!(floor(world.add(&sequenced("a", 10, 1), 1)), 10);
    // An expired session with a lower epoch does not lower it.
    world.add(&sequenced("e", 11, 1), 1).applied();
    assert_eq!(floor(world.add(&sequenced("b", 9, 1), 1)), 10);
}

#[test]
fn epoch_zero_is_valid() {
    let mut world = world();
    world.add(&sequenced("till", 0, 1), 1).applied();
    world.add(&sequenced("till", 0, 1), 1).replayed();
    world.at(LEASE + 1).tidy();
    assert_eq!(floor(world.add(&sequenced("till", 0, 1), 1)), 0);
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
    assert_eq!(floor(world.add(&sequenced("client-1", 1, 1), 1)), 1);
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
        // All expire within a second of an entry, at which none has.
        let second = LEASE / 1_000 * 1_000;
        world.at(second).add(&opaque("an entry"), 1).applied();
        world.at(second + 999);
        // Responses do not show which session expired; the rows to be stored do.
        for number in 0..3 {
            world.add(&sequenced(&format!("late-{number}"), 2, 1), 1).applied();
            let sessions = world.partition(&cell("a")).sessions();
            assert_eq!(sessions.len(), SESSIONS_MAX);
            let rows = sessions.take_changed().into_iter();
            let evicted: Vec<_> =
                rows.filter(|(_, row)| row.is_none()).map(|(client, _)| client.name).collect();
            assert_eq!(evicted, [name(number).into()]);
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
    world.batch(&sequenced("till", 1, 402), &[(a.clone(), Change::Delete), (a, Change::Set(3))]).fresh();
    world.add(&sequenced("other", 8, 1), 1).applied();
    world.at(LEASE + 500).add(&sequenced("third", 9, 1), 1).applied();
    world.tidy();
    world.add(&sequenced("fourth", 10, 1), 1).applied();
    world.checkpoint();
    assert_eq!(world.recovered().partitions, world.partitions);
    assert!(world.partition(&cell("a")).sessions().take_changed().is_empty(), "they count as stored");
}

#[test]
fn only_changed_sessions_are_stored_again() {
    let mut world = world();
    world.add(&sequenced("a", 1, 1), 1).applied();
    world.add(&sequenced("b", 1, 1), 1).applied();
    let changed = |world: &mut World| -> Vec<(String, bool)> {
        let rows = world.partition(&cell("a")).sessions().take_changed();
        rows.into_iter().map(|(client, row)| (client.name.into(), row.is_some())).collect()
    };
    assert_eq!(changed(&mut world), [("a".into(), true), ("b".into(), true)]);
    world.at(LEASE).add(&sequenced("b", 1, 2), 1).applied();
    world.add(&sequenced("b", 1, 2), 1).replayed();
    world.at(LEASE + 1).tidy();
    assert_eq!(changed(&mut world), [("a".into(), false), ("b".into(), true)]);
    assert!(changed(&mut world).is_empty());
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
    // Numbers that do not rise, that were dropped, and too many: epoch, dropped, time, lease, count, then
    // number, hash and result.
    let row = |numbers: &[u64]| {
        let answer = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0];
        let mut row = vec![1, 3, 0, 0];
        row.put_varint(numbers.len() as u64);
        for number in numbers {
            row.put_varint(*number);
            row.put_u64(0);
            row.put_bytes(&answer);
        }
        row
    };
    let many: Vec<u64> = (4..4 + SESSION_WINDOW as u64 + 1).collect();
    for (numbers, valid) in
        [(&[4, 4][..], false), (&[5, 4], false), (&[3, 9], false), (&many, false), (&many[1..], true)]
    {
        assert_eq!(empty.sessions().restore(client.clone(), &row(numbers)).is_ok(), valid, "{numbers:?}");
    }
}

/// Events of sessions. Times are in milliseconds.
#[derive(Debug, Clone)]
enum Event {
    /// Client, epoch, sequence number and row: two rows share a partition, the third is in another.
    Submit(u8, u64, u64, usize),
    /// Repeats the operation that was submitted this many events ago.
    Retry(usize),
    Wait(u64),
    Lease(u64),
    Maintain(Maintenance),
}

/// Epochs that are a time: during the run, or later than its end.
fn any_late_epoch() -> impl Strategy<Value = u64> {
    prop_oneof![START..START + 2 * LEASE, START..START + 40 * LEASE, Just(u64::MAX - 100_000)]
}

fn any_event() -> impl Strategy<Value = Event> {
    let seqs = prop_oneof![1..6u64, 1..600u64, 254..264u64];
    prop_oneof![
        12 => (0..4u8, 0..6u64, seqs, 0..3usize)
            .prop_map(|(client, epoch, seq, row)| Event::Submit(client, epoch, seq, row)),
        2 => (0..4u8, any_late_epoch(), 1..6u64, 0..3usize)
            .prop_map(|(client, epoch, seq, row)| Event::Submit(client, epoch, seq, row)),
        8 => (1..30usize).prop_map(Event::Retry),
        4 => prop_oneof![0..100u64, 0..2 * LEASE].prop_map(Event::Wait),
        1 => prop::sample::select(vec![1, LEASE / 2, 4 * LEASE]).prop_map(Event::Lease),
        4 => any_maintenance().prop_map(Event::Maintain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Against an unbounded memory: an applied operation is never applied again, a retry gets its first
    /// result or a rejection, and a client with an epoch above all used ones is accepted, unless it is above
    /// the current time or the partition is full.
    #[test]
    fn nothing_is_ever_applied_twice(
        events in prop::collection::vec(any_event(), 1..150),
        session_bytes_max in prop::sample::select(vec![SESSION_BYTES_MAX, 1_500, 3_000]),
    ) {
        let numbered = TableSettings { formats: Formats::only(Format::Sequenced), ..settings() };
        let mut world = World::new(numbered.clone());
        world.session_bytes_max = session_bytes_max;
        let rows = [&together(2)[..], &[apart().1]].concat();
        let (mut applied, mut submitted, mut epochs) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut millis = 0;
        for event in events {
            let (client, epoch, seq, row) = match event {
                Event::Submit(client, epoch, seq, row) => (client, epoch + millis / (20 * LEASE), seq, row),
                Event::Retry(back) if back <= submitted.len() => submitted[submitted.len() - back],
                Event::Retry(_) => continue,
                Event::Wait(more) => {
                    millis += more;
                    world.at(millis);
                    continue;
                }
                Event::Lease(millis) => {
                    // Refused if there are too many eras.
                    let _ = world.try_change(TableSettings { session_lease: ms(millis), ..numbered.clone() });
                    continue;
                }
                Event::Maintain(maintenance) => {
                    world.maintain(maintenance);
                    continue;
                }
            };
            submitted.push((client, epoch, seq, row));
            let id = sequenced(&format!("client-{client}"), epoch, seq);
            let verdict = world.change_cell(&id, &rows[row], Change::Add(1));
            match (applied.get(&(client, epoch, seq, row)), verdict) {
                (None, Verdict::Fresh(decision)) => {
                    prop_assert!(epoch <= START + millis + SKEW, "epoch {} accepted at {}", epoch, millis);
                    applied.insert((client, epoch, seq, row), decision.answer);
                    epochs.insert(epoch);
                }
                (Some(first), Verdict::Replay(again)) => prop_assert_eq!(first, &again),
                (_, Verdict::Rejected(Rejection::EpochAhead { latest })) => {
                    prop_assert_eq!(latest, START + millis + SKEW);
                    prop_assert!(epoch > latest, "epoch {} is refused, though {} is possible", epoch, latest);
                }
                (None, Verdict::Rejected(Rejection::Capacity { .. })) => {
                    prop_assert!(session_bytes_max < SESSION_BYTES_MAX);
                }
                (_, Verdict::Rejected(rejection)) => {
                    let above = epochs.last().is_none_or(|highest| epoch > *highest);
                    prop_assert!(!above, "a session of epoch {} is refused: {:?}", epoch, rejection);
                }
                (first, verdict) => {
                    prop_assert!(false, "{:?} was {:?} and now is {:?}", (id, row), first, verdict);
                }
            }
        }
        // An unknown client can begin with the current time.
        let unknown = sequenced("unknown", START + millis, 1);
        let fresh = |cell: &&Cell| is_fresh(&world.change_cell(&unknown, cell, Change::Add(1)));
        let fresh = rows.iter().filter(fresh).count();
        prop_assert!(fresh == rows.len() || session_bytes_max < SESSION_BYTES_MAX);
        let counter = |cell| world.store.values.get(cell).map_or(0, |value| value.counter().unwrap());
        prop_assert_eq!(rows.iter().map(counter).sum::<i64>(), (applied.len() + fresh) as i64);
    }
}

#[test]
fn sessions_expire_at_the_same_entry_in_a_replay() {
    let mut world = world();
    world.add(&sequenced("till", 5, 1), 1).applied();
    world.at(2 * LEASE).add(&opaque("later"), 1).applied();
    for mut world in [world.replayed(), world] {
        assert!(world.partition(&cell("a")).sessions().is_empty());
        assert_eq!(floor(world.add(&sequenced("other", 5, 1), 1)), 5);
    }
}
