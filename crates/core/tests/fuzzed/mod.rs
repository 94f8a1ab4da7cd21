//! Properties of arbitrary bytes decoded as ids, log entries or stored rows. The fuzz targets include this
//! file, so that their findings fail here in the same way.

#![allow(dead_code, reason = "each target uses its part")]

use std::time::Duration;

use jeton_core::codec::Reader;
use jeton_core::{
    BranchLogItem, Catalog, Cell, Change, Client, Column, DedupLocation, DedupRecord, Entry, Format, Formats,
    Generation, Hashes, LogItem, LogPosition, OpId, Operation, OperationDecision, OperationResult, Partition,
    PartitionId, Secret, TableId, TableSettings, Timestamp, Value, Values, complete, log_entry,
};

#[allow(clippy::duplicate_mod, reason = "the fuzz targets have no other source of it")]
#[path = "../core/common/store.rs"]
mod store;

use store::Store;

const SECRET: Secret = Secret::new(*b"secret of a test");
const TABLE: TableId = TableId(1);

pub fn every_format() -> Formats {
    Format::ALL.into_iter().fold(Formats::NONE, Formats::and)
}

/// Untrusted text parsed as an id: a valid id parses back from its display, with a tag or the table's only
/// format, and from a log entry.
pub fn id(data: &[u8]) {
    if let Ok(id) = OpId::opaque(data) {
        assert_in_log_round_trips(&id);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let all = every_format();
    if let Ok(id) = all.parse(text) {
        assert!(text.starts_with(id.format().name()), "{id:?}");
    }
    for format in Format::ALL {
        let only = Formats::only(format);
        let parsed = format.parse(text);
        assert_eq!(only.parse(text), parsed);
        assert_eq!(all.parse(&format!("{format}:{text}")), parsed);
        let Ok(id) = parsed else { continue };
        assert_eq!(id.format(), format);
        // Control characters are escaped for display, not for sending again.
        if format != Format::Opaque || !text.chars().any(char::is_control) {
            let shown = id.to_string();
            assert_eq!(format.parse(&shown).as_ref(), Ok(&id), "{shown}");
        }
        assert_in_log_round_trips(&id);
    }
}

/// An entry with the id round-trips.
fn assert_in_log_round_trips(id: &OpId) {
    let cell = Cell::new(&SECRET, TABLE, b"row", &Column::unnamed()).expect("a cell");
    let operation = Operation::single(Some(id.clone()), cell, Change::Add(1)).expect("an operation");
    let memory = match id.format() {
        Format::Sequenced => DedupLocation::Session { lease: Duration::from_secs(60) },
        _ => DedupLocation::Index { era: 1, generation: Generation(3) },
    };
    let (slot, millis) = (1, 1_700_000_000_000);
    let answer = OperationResult { applied: true, slot, millis, values: Values::One(Some(1)) };
    let decision = OperationDecision { answer, memory, effects: None };
    let mut bytes = Vec::new();
    log_entry::begin(LogPosition { slot, time: Timestamp::from_millis(millis) }, &mut bytes);
    log_entry::push(&operation, &decision, &mut bytes);
    let read: Result<Vec<_>, _> = Entry::read(slot, &bytes).expect("an entry").collect();
    assert_eq!(read, Ok(vec![LogItem::Operation(operation, decision)]));
}

/// Bytes of a log or a store, decoded as an entry, a result, a value, a partition, a session or a catalogue.
/// Decoded data encodes to the same bytes, and a decoded entry can be applied.
pub fn entry(data: &[u8]) {
    entry_of_a_log(data);
    if let Ok(record) = DedupRecord::decode(data) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(DedupRecord::decode(&bytes), Ok(record));
    }
    if let Ok(value) = Value::decode(&mut Reader::new(data)) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(Value::decode(&mut Reader::new(&bytes)), Ok(value));
    }
    if let Ok(cell) = Cell::from_bytes(data) {
        assert_eq!(cell.as_bytes(), data);
        let (row, column) = cell.row_and_column();
        assert!(row.len() + column.len() <= data.len());
    }
    if let Ok(mut partition) = Partition::decode(PartitionId(3), data) {
        assert_eq!(Partition::decode(PartitionId(3), &partition.encode()).as_ref(), Ok(&partition));
        partition.sessions().forget_expired(Timestamp::from_millis(u64::MAX));
    }
    session(data);
    branch(data);
    if let Ok(catalog) = Catalog::decode(data) {
        let bytes = catalog.encode();
        let again = Catalog::decode(&bytes).expect("a catalogue that was encoded");
        assert_eq!(again.encode(), bytes);
    }
}

fn session(data: &[u8]) {
    let client = Client { table: TABLE, name: "client".into() };
    let mut partition = Partition::new(PartitionId(3));
    if partition.sessions().restore(client, data).is_ok() {
        assert_eq!(partition.sessions().len(), 1);
        // As the client's next operation does, and as maintenance does.
        partition.sessions().forget_expired(Timestamp::from_millis(1_700_000_000_000));
        partition.sessions().forget_expired(Timestamp::from_millis(u64::MAX));
    }
}

/// As the row of a prepared branch.
fn branch(data: &[u8]) {
    let id = PartitionId(3);
    let mut partition = Partition::decode(id, &[0, 0, 0, 1]).expect("a partition with a branch");
    if partition.branches().restore(id, b"name", data).is_ok() {
        assert_eq!(partition.branches().restored(), Ok(()));
        assert_eq!(partition.branches().len(), 1);
    }
}

/// The partition of a log item, if the item determines it.
fn partition_of(item: &LogItem) -> Option<PartitionId> {
    match item {
        LogItem::Operation(operation, _) => Some(operation.partition()),
        LogItem::Branch(BranchLogItem::Prepared(branch)) => {
            Some(branch.additions().first()?.cell.partition())
        }
        LogItem::Branch(_) => None,
    }
}

fn entry_of_a_log(data: &[u8]) {
    let Ok(read) = Entry::read(1, data) else { return };
    let step = read.step();
    let Ok(items) = read.collect::<Result<Vec<_>, _>>() else { return };
    let mut bytes = Vec::new();
    log_entry::begin(step, &mut bytes);
    for item in &items {
        match item {
            LogItem::Operation(operation, decision) => log_entry::push(operation, decision, &mut bytes),
            LogItem::Branch(step) => log_entry::push_branch(step, &mut bytes),
        }
    }
    let again = Entry::read(1, &bytes).and_then(|read| read.collect::<Result<Vec<_>, _>>());
    assert_eq!(again.as_ref(), Ok(&items));

    // As recovery does.
    let Some(first) = items.iter().find_map(partition_of) else { return };
    let filters = TableSettings { expected_ids: 100, memory_cap: 1 << 22, ..TableSettings::default() };
    let settings = TableSettings { formats: every_format(), ..filters };
    let catalog = Catalog::default().create("clicks", settings, Timestamp::ZERO).expect("a table");
    let mut partition = Partition::new(first);
    let mut store = Store::default();
    partition.advance(step).expect("slot 1 of an empty partition");
    // An item that contradicts the values, the catalogue or an earlier item is an error, never a panic.
    for item in &items {
        match item {
            LogItem::Operation(operation, decision) => {
                let mut decision = decision.clone();
                let Some(table) = catalog.get(operation.table()) else { continue };
                if complete(operation, &mut decision, &mut store).is_ok() {
                    let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
                    let _ = partition.apply(table, operation, hashes, &decision, &mut store);
                }
            }
            LogItem::Branch(step) => {
                let _ = partition.apply_branch(step, SECRET.branch_key(step.name()), &mut store);
            }
        }
    }
    // The partition continues from there.
    let row = partition.encode();
    if let Ok(mut again) = Partition::decode(first, &row) {
        for (client, row) in partition.sessions().take_changed() {
            let row = row.expect("no session has expired");
            again.sessions().restore(client, &row).expect("a session that was written");
        }
        for (name, row) in partition.branches().take_changed() {
            let Some(row) = row else { continue };
            again.branches().restore(first, name.as_bytes(), &row).expect("a branch that was written");
        }
        assert_eq!(again.branches().restored(), Ok(()));
        let next = again.next_step(step.time);
        for item in &items {
            let LogItem::Operation(operation, _) = item else { continue };
            let Some(table) = catalog.get(operation.table()) else { continue };
            if operation.partition() == first {
                let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
                let Ok(_verdict) = again.decide(next, table, operation, hashes, &mut store);
            }
        }
    }
}
