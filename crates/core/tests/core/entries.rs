//! Log entries: decoded as encoded, in a stable format, and replayed to the same state.

use std::sync::LazyLock;

use crate::common::*;
use jeton_core::codec::Reader;

fn any_id() -> impl Strategy<Value = OpId> {
    let text = |bytes| prop_oneof![1..4usize, Just(bytes)].prop_map(|len| "x".repeat(len));
    let number = || prop_oneof![0..300u64, any::<u64>(), Just(u64::MAX)];
    let client = (text(CLIENT_BYTES_MAX), number(), number());
    let event = (text(ID_BYTES_MAX), text(ID_BYTES_MAX), number());
    prop_oneof![
        any_uuid7(),
        any::<u128>().prop_map(OpId::Ulid),
        client.prop_map(|(client, epoch, seq)| sequenced(&client, epoch, seq.max(1))),
        event.prop_map(|(source, id, time)| OpId::event(&source, &id, time).unwrap()),
        prop::collection::vec(any::<u8>(), 1..=ID_BYTES_MAX).prop_map(|bytes| OpId::opaque(&bytes).unwrap()),
    ]
}

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![-100..100i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
}

fn any_change() -> impl Strategy<Value = Change> {
    let bound = || prop::option::of(any_number());
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        any_number().prop_map(Change::Add),
        (any_number(), bound(), bound()).prop_map(|(delta, min, max)| {
            let crossed = min.zip(max).is_some_and(|(min, max)| min > max);
            if crossed { within(delta, max, min) } else { within(delta, min, max) }
        }),
        any_number().prop_map(Change::Set),
        Just(Change::Reset),
        Just(Change::Delete),
        bytes().prop_map(|bytes| Change::Put(bytes.into())),
        bytes().prop_map(|bytes| Change::Append(bytes.into())),
        prop::option::of(any::<u64>()).prop_map(Change::Expire),
        Just(Change::Check(Check::Absent)),
        Just(Change::Check(Check::Present)),
        any_value().prop_map(|value| Change::Check(Check::Holds(value))),
        any::<(u64, u64)>().prop_map(|(min, max)| Change::Check(Check::ExpiresWithin { min, max })),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let bytes = prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Bytes(bytes.into()));
    let value = prop_oneof![any_number().prop_map(Value::Counter), bytes];
    (value, prop::option::of(any::<u64>())).prop_map(|(value, until)| value.lasting(until))
}

/// Changes of one row, which may be long or have zero bytes, which are encoded in two bytes.
fn any_changes() -> impl Strategy<Value = Vec<(Cell, Change)>> {
    let row = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..20),
        Just(vec![0; ROW_BYTES_MAX]),
        Just(vec![b'r'; ROW_BYTES_MAX]),
    ];
    let columns = prop::sample::select(vec![
        Column::unnamed(),
        Column::parse(b"f:").unwrap(),
        Column::parse(&[&[b'f'; 64][..], b":", &[b'q'; 255]].concat()).unwrap(),
    ]);
    (row, prop::collection::vec((columns, any_change()), 1..5)).prop_map(|(row, changes)| {
        let cell = |column| Cell::new(&SECRET, TABLE, &row, &column).unwrap();
        changes.into_iter().map(|(column, change)| (cell(column), change)).collect()
    })
}

/// Any operation with any decision that fits it.
fn any_decided() -> impl Strategy<Value = (Operation, OperationDecision)> {
    let values = prop::collection::vec(prop::option::of(any_number()), 4);
    let numbers = (any::<u32>(), any::<u64>(), any::<bool>());
    (prop::option::of(any_id()), any_changes(), values, any::<bool>(), numbers).prop_map(
        |(id, changes, mut values, applied, (era, number, exact))| {
            values.truncate(changes.len());
            let memory = match &id {
                None => DedupLocation::None,
                Some(OpId::Sequenced { .. }) => session(Duration::from_nanos(number)),
                Some(_) if exact => DedupLocation::Index { era, generation: Generation(number) },
                Some(_) => DedupLocation::Filter { era },
            };
            let operation = Operation::batch(id, changes).unwrap();
            let answer = OperationResult { applied, slot: 0, millis: 0, values: Values::from_vec(values) };
            // The content after a change is at most as large as a cell, and present only for changes that
            // keep something.
            let kept = |(_, change): &(Cell, Change)| {
                let value = match change {
                    Change::Add(_) | Change::AddWithin { .. } => Value::Counter(i64::MIN),
                    Change::Expire(_) | Change::Append(_) => Value::Bytes(vec![7; CELL_BYTES_MAX].into()),
                    _ => return None,
                };
                Some(value.lasting(Some(u64::MAX)))
            };
            let effects = (number % 2 == 0).then(|| operation.changes().map(kept).collect());
            (operation, OperationDecision { answer, memory, effects })
        },
    )
}

proptest! {
    #[test]
    fn encoded_values_round_trip(
        slot: u64,
        millis in 0..u64::MAX / 1_000_000,
        mut decided in prop::collection::vec(any_decided(), 0..4),
    ) {
        let step = LogPosition { slot, time: Timestamp::from_millis(millis) };
        let mut bytes = Vec::new();
        log_entry::begin(step, &mut bytes);
        for (operation, decision) in &mut decided {
            decision.answer.slot = slot;
            decision.answer.millis = millis;
            let before = bytes.len();
            log_entry::push(operation, decision, &mut bytes);
            prop_assert!(bytes.len() - before <= operation.size_max(), "beyond size_max");
            // Content that can be recomputed is not encoded, however large it is.
            if operation.changes().any(|(_, change)| matches!(change, Change::Expire(_) | Change::Append(_))) {
                decision.effects = None;
            }
        }
        let read = Entry::read(slot, &bytes).unwrap();
        prop_assert_eq!(read.step(), step);
        let decided: Vec<LogItem> =
            decided.into_iter().map(|(operation, decision)| LogItem::Operation(operation, decision)).collect();
        prop_assert_eq!(read.collect::<Result<Vec<_>, _>>(), Ok(decided.clone()));

        // A truncated entry is refused, or ends at an operation.
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
            if let Ok(read) = Entry::read(slot, &bytes[..len])
                && let Ok(less) = read.collect::<Result<Vec<_>, _>>()
            {
                prop_assert!(less.len() < decided.len());
                prop_assert_eq!(&less[..], &decided[..less.len()]);
            }
        }
    }

    #[test]
    fn results_and_values_round_trip((_, decision) in any_decided(), payload: u64, slot: u64) {
        let answer = OperationResult { slot, millis: slot >> 1, ..decision.answer };
        let record = DedupRecord { payload: PayloadHash(payload), answer };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(DedupRecord::decode(&bytes), Ok(record));
        for len in 0..bytes.len() {
            prop_assert!(DedupRecord::decode(&bytes[..len]).is_err());
        }
        for value in [Value::Counter(payload as i64), Value::Bytes(bytes.clone().into())] {
            let mut out = Vec::new();
            value.encode(&mut out);
            prop_assert_eq!(Value::decode(&mut Reader::new(&out)), Ok(value));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let begun = [&[2, 5][..], &noise].concat();
        for bytes in [&noise, &begun] {
            if let Ok(read) = Entry::read(1, bytes) {
                prop_assert!(read.count() <= bytes.len());
            }
            let _ = DedupRecord::decode(bytes);
            let _ = Catalog::decode(bytes);
            let _ = Partition::decode(PartitionId(0), bytes);
            let client = Client { table: TABLE, name: "till".into() };
            let _ = Partition::new(PartitionId(0)).sessions().restore(client, bytes);
            let _ = Value::decode(&mut Reader::new(bytes));
        }
    }

    /// One byte of a valid entry is damaged: it is refused, or decodes to something that does not panic.
    #[test]
    fn a_damaged_entry_never_panics(decided in any_decided(), at: prop::sample::Index, byte: u8) {
        let (operation, mut decision) = decided;
        decision.answer.slot = 1;
        if let DedupLocation::Filter { era } | DedupLocation::Index { era, .. } = &mut decision.memory {
            *era = 1;
        }
        let step = LogPosition { slot: 1, time: crate::common::at(0) };
        let mut bytes = entry_of(step, |out| log_entry::push(&operation, &decision, out));
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let Ok(read) = Entry::read(1, &bytes) else { return Ok(()) };
        let step = read.step();
        static CATALOG: LazyLock<Catalog> = LazyLock::new(|| world().catalog);
        for one in read {
            let Ok(LogItem::Operation(operation, mut decision)) = one else { break };
            let mut store = Store::default();
            if complete(&operation, &mut decision, &mut store).is_err() {
                break;
            }
            let mut partition = Partition::new(operation.partition());
            partition.advance(step).unwrap();
            let table = CATALOG.get(TABLE).unwrap();
            // An error is allowed, a panic is not.
            let _ = partition.apply(table, &operation, hashes(&operation), &decision, &mut store);
        }
    }
}

fn session(lease: Duration) -> DedupLocation {
    DedupLocation::Session { lease }
}

#[test]
fn an_entry_with_a_wrong_dedup_location_is_refused() {
    let index = DedupLocation::Index { era: 1, generation: Generation(9) };
    let filter = DedupLocation::Filter { era: 1 };
    for (id, wrong) in [
        (None, &[filter, index, session(ms(1))][..]),
        (Some(opaque("a")), &[DedupLocation::None, session(ms(1))]),
        (Some(uuid7(0, 1)), &[session(ms(1))]),
        (Some(sequenced("a", 1, 1)), &[DedupLocation::None, filter, index]),
    ] {
        for memory in wrong {
            let operation = Operation::single(id.clone(), cell("a"), Change::Reset).unwrap();
            let step = LogPosition { slot: 77, time: at(0) };
            let decision = decided(true, &[Some(0)], *memory);
            let bytes = entry_of(step, |out| log_entry::push(&operation, &decision, out));
            let read: Result<Vec<_>, _> = Entry::read(77, &bytes).unwrap().collect();
            assert!(read.is_err(), "{id:?} in {memory:?}");
        }
    }
}

#[test]
fn the_longest_numbers_fit_size_max() {
    let id = OpId::event(&"s".repeat(ID_BYTES_MAX), &"i".repeat(ID_BYTES_MAX), u64::MAX).unwrap();
    let memory = DedupLocation::Index { era: u32::MAX, generation: Generation(u64::MAX) };
    for (id, memory) in [(None, DedupLocation::None), (Some(id), memory)] {
        for count in [1, 2, 256] {
            let change = (cell(&"r".repeat(ROW_BYTES_MAX)), within(i64::MIN, Some(i64::MIN), Some(i64::MAX)));
            let operation = Operation::batch(id.clone(), vec![change; count]).unwrap();
            let mut bytes = Vec::new();
            log_entry::push(&operation, &decided(false, &vec![Some(i64::MIN); count], memory), &mut bytes);
            assert!(bytes.len() <= operation.size_max(), "{} > {}", bytes.len(), operation.size_max());
        }
    }
}

#[test]
fn an_entry_of_an_unknown_version_or_kind_is_refused() {
    for bytes in [&[][..], &[0, 5], &[1, 5], &[3, 5]] {
        assert!(Entry::read(1, bytes).is_err(), "{bytes:?}");
    }
    assert_eq!(Entry::read(1, &[2, 5]).unwrap().count(), 0);
    assert!(Entry::read(1, &[2, 5, 8]).unwrap().next().unwrap().is_err(), "a fifth dedup location");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decided(applied: bool, values: &[Option<i64>], memory: DedupLocation) -> OperationDecision {
    let values = Values::from_vec(values.to_vec());
    let answer = OperationResult { applied, slot: 77, millis: START, values };
    OperationDecision { answer, memory, effects: None }
}

/// These bytes are in the logs of stores: an entry must be readable permanently. A change here needs a new
/// entry version beside the old one.
#[test]
fn entry_encoding_is_stable() {
    let check = |id: Option<OpId>, changes: &[(Cell, Change)], decision, golden| {
        let operation = Operation::batch(id, changes.to_vec()).unwrap();
        let step = LogPosition { slot: 77, time: at(0) };
        assert_eq!(hex(&entry_of(step, |out| log_entry::push(&operation, &decision, out))), golden);
    };
    let (none, filter) = (DedupLocation::None, DedupLocation::Filter { era: 1 });
    let index = DedupLocation::Index { era: 2, generation: Generation(300) };
    let a = |change| (cell("a"), change);
    check(
        None,
        &[a(Change::Add(-3))],
        decided(true, &[Some(-3)], none),
        "0280d095ffbc310001090060000000016100000105030105",
    );
    check(
        Some(uuid7_at(1_645_557_742_000, 5)),
        &[a(within(7, Some(-1), None))],
        decided(false, &[Some(4)], index),
        "0280d095ffbc31050105000000000000800070b079e2227f010109006000000001610000030e0102010802ac02",
    );
    check(
        Some(OpId::Ulid(0x0102)),
        &[a(within(7, None, Some(9)))],
        decided(true, &[Some(7)], filter),
        "0280d095ffbc310302020100000000000000000000000000000109006000000001610000040e1203010e01",
    );
    check(
        Some(sequenced("till", 300, 2)),
        &[a(within(7, Some(0), Some(9)))],
        decided(true, &[Some(7)], session(ms(1))),
        "0280d095ffbc3107030474696c6cac02020109006000000001610000050e001203010ec0843d",
    );
    check(
        Some(OpId::event("till", "17", START).unwrap()),
        &[a(within(i64::MIN, None, None)), a(Change::Set(i64::MAX)), a(Change::Reset)],
        decided(true, &[Some(1), Some(i64::MAX), Some(0)], index),
        "0280d095ffbc3105040474696c6c02313780d095ffbc31030900600000000161000002ffffffffffffffffff010900600000000161000006feffffffffffffffff01090060000000016100000707010201feffffffffffffffff01010002ac02",
    );
    check(
        Some(opaque("order")),
        &[(column("a", "f:q"), put("bytes")), a(Change::Delete)],
        decided(true, &[None, None], filter),
        "0280d095ffbc310305056f72646572020c006000000001610000663a7109056279746573090060000000016100000805000001",
    );
    let expiring = OperationDecision {
        effects: Some([Some(Value::Counter(3).lasting(Some(START)))].into()),
        ..decided(true, &[Some(3)], none)
    };
    check(
        None,
        &[a(Change::Expire(Some(START)))],
        expiring.clone(),
        "0280d095ffbc310001090060000000016100000e80d095ffbc31030106",
    );
    check(
        None,
        &[a(Change::Add(1))],
        expiring,
        "0280d095ffbc3108010900600000000161000001020301060380d095ffbc310106",
    );
    check(
        None,
        &[a(Change::Expire(None)), a(append("ab"))],
        decided(true, &[Some(3), Some(3)], none),
        "0280d095ffbc310002090060000000016100000d090060000000016100000f0261620501060106",
    );
}

#[test]
fn row_encodings_are_stable() {
    let mut bytes = Vec::new();
    let answer = OperationResult { applied: true, slot: 300, millis: START, values: Values::One(Some(-1)) };
    DedupRecord { payload: PayloadHash(0x0102_0304_0506_0708), answer }.encode(&mut bytes);
    assert_eq!(hex(&bytes), "0807060504030201ac0280d095ffbc31030101");

    let mut bytes = Vec::new();
    Value::Counter(-2).encode(&mut bytes);
    crate::common::bytes("ab").encode(&mut bytes);
    assert_eq!(hex(&bytes), "010302026162");

    let mut world = world();
    world.add(&sequenced("till", 300, 2), 1).applied();
    let session = world.partition(&cell("a")).sessions().take_changed();
    assert_eq!(
        hex(session[0].1.as_ref().unwrap()),
        "ac02008080a8b1e39fe7cb1780b09dc2df010102cfd19b2c9594c46012295c991718150ff80180d095ffbc31030102"
    );
    world.at(60_001).tidy();
    assert_eq!(hex(&world.partition(&cell("a")).encode()), "018080a8b1e39fe7cb170101ac02");
}

#[test]
fn hashes_are_stable() {
    let key = SECRET.id_key(&cell("a"), &opaque("order"), &mut Vec::new());
    assert_eq!(hex(&key.to_bytes()), "6e542cb9c31b90ad844654a08595779b");
    assert_eq!(SECRET.payload(b"changes").0, 0x548f4f97815c306e);
    assert_eq!(SECRET.partition(TABLE, b"row").0, 251);
}

/// Two tables, the first with two eras, and settings without any default value.
fn two_tables() -> Catalog {
    let settings = TableSettings {
        formats: Formats::only(Format::Ulid).and(Format::Opaque),
        dated_window: ms(2),
        opaque_window: ms(3),
        skew: ms(1),
        session_lease: ms(4),
        mode: Mode::Probabilistic { target: 0.01 },
        durability: Durability::Relaxed,
        without_id: MissingIdPolicy::AtMostOnce,
        expected_ids: 300,
        memory_cap: 1 << 20,
    };
    let catalog = Catalog::default().create("clicks", TableSettings::default(), Timestamp::ZERO).unwrap();
    let changed = catalog.get(TABLE).unwrap().change(settings.clone(), at(0)).unwrap();
    let catalog = catalog.replaced(changed).create("views", settings.clone(), at(0)).unwrap();
    catalog.create("gone", settings, at(0)).unwrap().delete("gone", at(0)).unwrap()
}

#[test]
fn catalogue_encoding_is_stable_and_round_trips() {
    let catalog = two_tables();
    assert_eq!(
        hex(&catalog.encode()),
        "02000003020106636c69636b7300020280e0e2b5a2a3e7cb17002480897ac08db701c0843d8092f401017b14ae47e17a843f0101ac02808040010080e09ec0ebf5facb17028080bc8ac9d21380e0a596bb1180b09dc2df018080a4c9ffc18901000000904e80808080040205766965777300010100002480897ac08db701c0843d8092f401017b14ae47e17a843f0101ac028080400104676f6e650398fff5b2e39fe7cb178089a2b2e39fe7cb1700"
    );
    let bytes = catalog.encode();
    let read = Catalog::decode(&bytes).unwrap();
    assert_eq!(read.encode(), bytes);
    for (one, other) in catalog.iter().zip(read.iter()) {
        assert_eq!((one.id, &one.name), (other.id, &other.name));
        let eras = |table: &Table| -> Vec<_> {
            table.eras().map(|era| (era.number, era.floor(), era.settings.clone())).collect()
        };
        assert_eq!(eras(one), eras(other));
    }
    assert_eq!(read.find("views").unwrap().id.0, 2);
    for len in 0..bytes.len() {
        assert!(Catalog::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    // Version, two times, the last number, tables, number, name, floor, eras, and then the number of the
    // first era, which is 2.
    let mut unsorted = bytes;
    assert_eq!(unsorted[15], 2);
    unsorted[15] = 1;
    assert!(Catalog::decode(&unsorted).is_err(), "two eras of one number");
}

#[test]
fn table_names_and_numbers_are_unique() {
    let catalog = Catalog::default().create("clicks", settings(), Timestamp::ZERO).unwrap();
    assert_eq!(catalog.create("clicks", settings(), Timestamp::ZERO).unwrap_err().setting, "table");
    for name in ["", "Clicks", "a b", "-a", ".a", "a/b", "\u{e9}", &"a".repeat(65)] {
        assert_eq!(
            catalog.create(name, settings(), Timestamp::ZERO).unwrap_err().setting,
            "table",
            "{name:?}"
        );
    }
    for name in ["a", "0", "a.b_c-d", &"a".repeat(64)] {
        assert!(catalog.create(name, settings(), Timestamp::ZERO).is_ok(), "{name:?}");
    }
    assert!(catalog.get(TableId(0)).is_none() && catalog.get(TableId(2)).is_none());
    assert!(catalog.find("views").is_none());
}
