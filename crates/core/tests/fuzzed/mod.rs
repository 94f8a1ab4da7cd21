//! Properties of arbitrary bytes decoded as ids, log entries or stored rows. The fuzz targets include this
//! file, so that their findings fail here in the same way.

#![allow(dead_code, reason = "each target uses its part")]

use std::time::Duration;

use jeton_core::codec::Reader;
use jeton_core::{
    BranchLogItem, Catalog, Cell, Change, Client, Column, DedupLocation, DedupRecord, Entry, Format, Formats,
    Generation, Hashes, LogItem, OpId, Operation, OperationDecision, OperationResult, Partition, PartitionId,
    Secret, TableId, TableSettings, Timestamp, Value, Values, complete, log_entry,
};

#[allow(clippy::duplicate_mod, reason = "the fuzz target has no other tests beside it to take it from")]
#[path = "../common/store.rs"]
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
        survives_the_log(&id);
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
        survives_the_log(&id);
    }
}

/// An entry with the id round-trips.
fn survives_the_log(id: &OpId) {
    let (step, operation, decision) = counted(id);
    let mut bytes = Vec::new();
    log_entry::begin(step, &mut bytes);
    log_entry::push(&operation, &decision, &mut bytes);
    let read: Result<Vec<_>, _> = Entry::read(step.slot, &bytes).expect("an entry").collect();
    assert_eq!(read, Ok(vec![LogItem::Operation(operation, decision)]));
}

fn counted(id: &OpId) -> (jeton_core::LogPosition, Operation, OperationDecision) {
    let cell = Cell::new(&SECRET, TABLE, b"row", &Column::unnamed()).expect("a cell");
    let operation = Operation::single(Some(id.clone()), cell, Change::Add(1)).expect("an operation");
    let memory = match id.format() {
        Format::Sequenced => DedupLocation::Session { lease: Duration::from_secs(60) },
        _ => DedupLocation::Index { era: 1, generation: Generation(3) },
    };
    let step = jeton_core::LogPosition { slot: 1, time: Timestamp::from_millis(1_700_000_000_000) };
    let answer =
        OperationResult { applied: true, slot: 1, millis: 1_700_000_000_000, values: Values::One(Some(1)) };
    (step, operation, OperationDecision { answer, memory, effects: None })
}

/// Bytes of a log or a store, decoded as an entry, a result, a value, a partition, a session or a catalogue.
/// Decoded data encodes to the same bytes, and a decoded entry can be applied.
pub fn entry(data: &[u8]) {
    entry_of_a_log(data);
    if let Ok(remembered) = DedupRecord::decode(data) {
        let mut bytes = Vec::new();
        remembered.encode(&mut bytes);
        assert_eq!(DedupRecord::decode(&bytes), Ok(remembered));
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
        partition.sessions().forget_idle(Timestamp::from_millis(u64::MAX));
    }
    session(data);
    branch(data);
    if let Ok(catalog) = Catalog::decode(data) {
        let bytes = catalog.encode();
        let again = Catalog::decode(&bytes).expect("a catalogue that was read once");
        assert_eq!(again.encode(), bytes);
    }
}

fn session(data: &[u8]) {
    let client = Client { table: TABLE, name: "client".into() };
    let mut partition = Partition::new(PartitionId(3));
    if partition.sessions().restore(client.clone(), data).is_ok() {
        assert_eq!(partition.sessions().len(), 1);
        // As the client's next operation does, and as maintenance does.
        partition.sessions().forget_idle(Timestamp::from_millis(1_700_000_000_000));
        partition.sessions().forget_idle(Timestamp::from_millis(u64::MAX));
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

/// The partition of a log item, as far as it is known.
fn partition_of(logged: &LogItem) -> Option<PartitionId> {
    match logged {
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
    let Ok(decided) = read.collect::<Result<Vec<_>, _>>() else { return };
    let mut bytes = Vec::new();
    log_entry::begin(step, &mut bytes);
    decided.iter().for_each(|logged| log_entry::push_logged(logged, &mut bytes));
    let again = Entry::read(1, &bytes).and_then(|read| read.collect::<Result<Vec<_>, _>>());
    assert_eq!(again.as_ref(), Ok(&decided));

    // As recovery does.
    let Some(first) = decided.iter().find_map(partition_of) else { return };
    let settings = TableSettings {
        formats: every_format(),
        expected_ids: 100,
        memory_cap: 1 << 22,
        ..TableSettings::default()
    };
    let catalog = Catalog::default().create("clicks", settings).expect("a table");
    let mut partition = Partition::new(first);
    let mut store = Store::default();
    partition.advance(step).expect("slot 1 of an empty partition");
    for logged in &decided {
        let (operation, decision) = match logged {
            LogItem::Operation(operation, decision) => (operation, decision),
            LogItem::Branch(step) => {
                // A step that does not follow from the state is an error.
                let key = SECRET.branch_key(step.name());
                let _follows = partition.apply_branch(step, key, &mut store);
                continue;
            }
        };
        let mut decision = decision.clone();
        let Some(table) = catalog.get(operation.table()) else { continue };
        // An entry that contradicts the values, the catalogue or an earlier entry is an error, never a panic.
        if complete(operation, &mut decision, &mut store).is_err() {
            continue;
        }
        let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
        let _ = partition.apply(table, operation, hashes, &decision, &mut store);
    }
    // The partition continues from there.
    let row = partition.encode();
    if let Ok(mut again) = Partition::decode(first, &row) {
        for (client, row) in partition.sessions().take_changed() {
            let row = row.expect("nobody has forgotten it");
            again.sessions().restore(client, &row).expect("a session that was written");
        }
        for (name, row) in partition.branches().take_changed() {
            let Some(row) = row else { continue };
            again.branches().restore(first, name.as_bytes(), &row).expect("a branch that was written");
        }
        assert_eq!(again.branches().restored(), Ok(()));
        let next = again.next_step(step.time);
        for logged in &decided {
            let LogItem::Operation(operation, _) = logged else { continue };
            let Some(table) = catalog.get(operation.table()) else { continue };
            if operation.partition() == first {
                let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
                let Ok(_verdict) = again.decide(next, table, operation, hashes, &mut store);
            }
        }
    }
}
