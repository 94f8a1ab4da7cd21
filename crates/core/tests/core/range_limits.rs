//! Limits of every range: times, windows, skews, eras; and invalid rows.

use crate::common::*;
use jeton_core::codec::Write;

/// The last whole millisecond of a `Timestamp`.
const LAST: u64 = u64::MAX / 1_000_000;

fn extreme_settings() -> Vec<TableSettings> {
    let mut all = Vec::new();
    for dated_window in [WINDOW_MIN, WINDOW_MAX] {
        for opaque_window in [WINDOW_MIN, WINDOW_MAX] {
            for skew in [ms(0), dated_window] {
                for mode in [Mode::Exact, Mode::Probabilistic { target: 1e-6 }] {
                    let windows = TableSettings { dated_window, opaque_window, skew, mode, ..settings() };
                    all.push(TableSettings { session_lease: opaque_window, expected_ids: 1, ..windows });
                }
            }
        }
    }
    all
}

#[test]
fn ids_count_once_at_the_limits_of_time() {
    for settings in extreme_settings() {
        for begin in [0, 1, START, LAST - 1, LAST] {
            let mut world = World::new(settings.clone());
            let mut counted: Vec<OpId> = Vec::new();
            let window = settings.dated_window.as_millis() as u64;
            for later in [0, 1, window, LAST] {
                let now = begin.saturating_add(later).min(LAST);
                world.now = Timestamp::from_millis(now);
                let (before, after) = (now.saturating_sub(window), now.saturating_add(window));
                let times = [0, before, now, after, LAST, (1 << 48) - 1, u64::MAX];
                let ids = times.iter().enumerate().flat_map(|(number, time)| {
                    let event = OpId::event("source", "id", *time).unwrap();
                    let uuid = uuid7_at((*time).min((1 << 48) - 1), number as u64);
                    [event, uuid, sequenced("till", *time, 1), sequenced("other", *time, u64::MAX)]
                });
                let ids: Vec<OpId> = ids.chain([opaque("order")]).collect();
                for id in ids.iter().chain(&ids) {
                    if is_fresh(&world.add(id, 1)) {
                        let again = counted.contains(id) && id.format() != Format::Opaque;
                        assert!(!again, "{id} counts twice at {now}: {settings:?}");
                        counted.push(id.clone());
                    }
                }
                world.change(settings.clone());
                world.checkpoint();
                world = world.recovered();
                world.tidy();
            }
            world.replayed();
        }
    }
}

/// The expiry of an era's last record saturates, and does not say when the era ended.
#[test]
fn a_short_era_at_the_end_of_time_counts() {
    let short =
        TableSettings { dated_window: WINDOW_MIN, opaque_window: WINDOW_MAX, skew: ms(0), ..settings() };
    let mut world = World::new(short.clone());
    let id = uuid7_at(LAST - 2_000_000, 1);
    world.now = Timestamp::from_millis(LAST - 2_000_000);
    world.add(&id, 1).applied();
    world.change(TableSettings { dated_window: WINDOW_MAX, ..short });
    world.now = Timestamp::from_millis(LAST - 1_000_000);
    world.tidy();
    assert!(!is_fresh(&world.add(&id, 1)), "it counts twice");
}

/// The bytes of a catalogue with one table, before and after the number of its first era.
fn catalogue() -> (Vec<u8>, Vec<u8>) {
    let bytes = Catalog::default().create("clicks", settings(), Timestamp::ZERO).unwrap().encode();
    // Version, two times, the last number, tables, number, name, floor; then eras, and the number of the
    // first.
    let eras = 7 + 1 + "clicks".len();
    assert_eq!(bytes[eras..eras + 2], [1, 1]);
    (bytes[..eras].to_vec(), bytes[eras + 2..].to_vec())
}

#[test]
fn the_last_era_refuses_a_change() {
    let (mut bytes, rest) = catalogue();
    bytes.push(1);
    bytes.put_varint(u64::from(u32::MAX));
    bytes.extend_from_slice(&rest);
    let catalog = Catalog::decode(&bytes).unwrap();
    let error = catalog.get(TABLE).unwrap().change(settings(), at(0)).unwrap_err();
    assert_eq!(error.setting, "table");
}

/// Each era and each table allocates filters: their number is checked before any is created.
#[test]
fn too_many_eras_or_tables_are_refused_early() {
    let mut no_tables = Catalog::default().encode();
    // The numbers of tables and of deleted tables.
    no_tables.truncate(no_tables.len() - 2);
    for (mut bytes, count) in [(catalogue().0, ERAS_MAX + 1), (no_tables, TABLES_MAX + 1)] {
        bytes.put_varint(count as u64);
        bytes.extend_from_slice(&[0; 2 * TABLES_MAX]);
        let error = Catalog::decode(&bytes).unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
    }
}

/// An invalid partition row is refused, or the entries after it replay from it.
#[test]
fn a_decoded_partition_continues() {
    let id = PartitionId(3);
    for slot in [0, 1, u64::MAX - 1, u64::MAX] {
        for nanos in [0, 1, 999_999, 1_000_000, LAST * 1_000_000, u64::MAX] {
            let mut row = Vec::new();
            [slot, nanos, 0].into_iter().for_each(|number| row.put_varint(number));
            let Ok(mut partition) = Partition::decode(id, &row) else {
                assert!(slot == u64::MAX || nanos % 1_000_000 != 0, "slot {slot} at {nanos} is refused");
                continue;
            };
            let mut before = partition.clone();
            for now in [Timestamp::ZERO, at(0), Timestamp::from_nanos(u64::MAX)] {
                if partition.slot() == u64::MAX {
                    break;
                }
                let step = partition.next_step(now);
                partition.advance(step).unwrap();
                let bytes = entry_of(step, |_| ());
                before.advance(Entry::read(step.slot, &bytes).unwrap().step()).unwrap();
                assert_eq!(before, partition, "slot {slot} at {nanos}");
            }
        }
    }
}
