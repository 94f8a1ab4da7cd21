//! Deleted tables: names and numbers, and ids that must not count in a later table of the name.

use std::collections::BTreeMap;

use crate::common::*;

/// A store whose tables come and go.
struct Tables {
    catalog: Catalog,
    partitions: BTreeMap<PartitionId, Partition>,
    store: Store,
    now: u64,
}

impl Tables {
    fn new() -> Self {
        let (partitions, store) = (BTreeMap::new(), Store::default());
        Self { catalog: Catalog::default(), partitions, store, now: 0 }
    }

    fn create(&mut self, name: &str, settings: TableSettings) -> Result<(), SettingsError> {
        self.catalog = self.catalog.create(name, settings, at(self.now))?;
        Ok(())
    }

    fn delete(&mut self, name: &str) -> DeletedTable {
        let id = self.catalog.find(name).unwrap().id;
        self.catalog = self.catalog.delete(name, at(self.now)).unwrap().removed(id);
        // As it is after a restart.
        self.catalog = Catalog::decode(&self.catalog.encode()).unwrap();
        *self.catalog.deleted().find(|deleted| deleted.id == id).unwrap()
    }

    /// Adds 1 to a row of a table.
    fn add(&mut self, table: &str, id: &OpId) -> Verdict {
        let table = self.catalog.find(table).unwrap();
        let cell = Cell::new(&SECRET, table.id, b"a", &Column::unnamed()).unwrap();
        let operation = Operation::single(Some(id.clone()), cell, Change::Add(1)).unwrap();
        let id = operation.partition();
        let partition = self.partitions.entry(id).or_insert_with(|| Partition::new(id));
        let step = partition.next_step(at(self.now));
        let Ok(verdict) = partition.decide(step, table, &operation, hashes(&operation), &mut self.store);
        if let Verdict::Fresh(decision) = &verdict {
            partition.advance(step).unwrap();
            partition.apply(table, &operation, hashes(&operation), decision, &mut self.store).unwrap();
        }
        verdict
    }
}

/// Ids of every format that a table accepts at a time.
fn ids(now: u64) -> [OpId; 6] {
    let event = OpId::event("source", "1", START + now).unwrap();
    let ulid = OpId::Ulid(u128::from(START + now) << 80 | 1);
    let session = |epoch| sequenced(&format!("client-{epoch}"), epoch, 1);
    [uuid7(now, 1), uuid7(now + SKEW, 2), ulid, event, session(START + now), session(START + now + SKEW)]
}

#[test]
fn ids_of_a_deleted_table_never_count_in_its_successor() {
    for later in [0, 10, WINDOW, 100 * WINDOW] {
        let mut tables = Tables::new();
        tables.create("t", settings()).unwrap();
        let of_first = ids(0);
        for id in of_first.iter().chain([&opaque("order")]) {
            tables.add("t", id).applied();
        }
        let deleted = tables.delete("t");
        tables.now = millis_of(deleted.reserved_until) - 1;
        assert_eq!(tables.create("t", settings()).unwrap_err().setting, "table", "the name is reserved");
        tables.now += 1 + later;
        // The window of the successor is longer.
        tables.create("t", TableSettings { dated_window: ms(1000 * WINDOW), ..settings() }).unwrap();
        for id in &of_first {
            let rejection = tables.add("t", id).rejected();
            let is_late = matches!(rejection, Rejection::Expired { .. } | Rejection::UnknownSession { .. });
            assert!(is_late, "{id}: {rejection:?}");
        }
        for id in ids(tables.now) {
            tables.add("t", &id).applied();
        }
        // A change of settings keeps the floor.
        let table = tables.catalog.find("t").unwrap().change(settings(), at(tables.now)).unwrap();
        tables.catalog = Catalog::decode(&tables.catalog.replaced(table).encode()).unwrap();
        assert!(of_first.iter().all(|id| !is_fresh(&tables.add("t", id))));
        // And so does another deletion.
        tables.delete("t");
        tables.now += 2 * WINDOW;
        tables.create("t", TableSettings { dated_window: ms(1000 * WINDOW), ..settings() }).unwrap();
        assert!(of_first.iter().all(|id| !is_fresh(&tables.add("t", id))));
    }
}

fn millis_of(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000_000 - START
}

#[test]
fn a_name_is_reserved_for_the_windows_of_opaque_ids() {
    let reserved = |first: TableSettings, second: Option<TableSettings>| {
        let mut tables = Tables::new();
        tables.create("t", first).unwrap();
        if let Some(second) = second {
            let table = tables.catalog.find("t").unwrap().change(second, at(1_000)).unwrap();
            tables.catalog = tables.catalog.replaced(table);
        }
        tables.now = 2_000;
        millis_of(tables.delete("t").reserved_until)
    };
    let dated = TableSettings { formats: Formats::only(Format::Uuid7), ..settings() };
    let drifted = WINDOW + WINDOW / 8;
    assert_eq!(reserved(dated.clone(), None), 2_000 + SKEW + 1);
    assert_eq!(reserved(settings(), None), 2_000 + drifted);
    // An earlier era with opaque ids ended at 1,000, or up to the slack later.
    assert_eq!(reserved(settings(), Some(dated.clone())), 2_000 + drifted);
    let long_skew = TableSettings { skew: ms(WINDOW), ..dated.clone() };
    assert_eq!(reserved(long_skew, Some(dated)), 2_000 + WINDOW + 1);
}

#[test]
fn a_place_is_returned_when_the_name_is_free() {
    let small = || TableSettings { formats: Formats::only(Format::Sequenced), skew: ms(SKEW), ..settings() };
    let mut tables = Tables::new();
    for number in 0..TABLES_MAX {
        tables.create(&format!("t{number}"), small()).unwrap();
    }
    assert!(tables.create("late", small()).is_err());
    tables.catalog = tables.catalog.delete("t7", at(0)).unwrap();
    assert!(tables.create("late", small()).is_err(), "the name is reserved");
    tables.now = SKEW + 1;
    assert!(tables.create("late", small()).is_err(), "its cells are not removed");
    tables.catalog = tables.catalog.removed(TableId(8));
    tables.create("late", small()).unwrap();

    // Numbers are not used again, and tables are found by number and by name.
    assert!(tables.catalog.get(TableId(8)).is_none() && tables.catalog.was_deleted(TableId(8)));
    assert!(!tables.catalog.was_deleted(TableId(0)) && !tables.catalog.was_deleted(TableId(1_026)));
    for (id, name) in [(7, "t6"), (9, "t8"), (1_024, "t1023"), (1_025, "late")] {
        assert_eq!(tables.catalog.get(TableId(id)).unwrap().name, name);
        assert_eq!(tables.catalog.find(name).unwrap().id, TableId(id));
    }
    assert!(tables.catalog.find("t7").is_none());
}

/// More names than a catalogue lists: those that are not listed have the floor of the latest of them.
#[test]
fn floors_of_many_deleted_names_are_kept() {
    let small = || TableSettings { formats: Formats::only(Format::Sequenced), skew: ms(SKEW), ..settings() };
    let mut tables = Tables::new();
    for number in 0..TABLES_MAX as u64 + 10 {
        tables.now = number * 2 * SKEW;
        let name = format!("t{number}");
        tables.create(&name, small()).unwrap();
        let id = tables.catalog.find(&name).unwrap().id;
        tables.catalog = tables.catalog.delete(&name, at(tables.now)).unwrap().removed(id);
    }
    tables.catalog = Catalog::decode(&tables.catalog.encode()).unwrap();
    assert_eq!(tables.catalog.deleted().count(), TABLES_MAX);
    tables.now += 2 * SKEW;
    for number in [0, 9, 10, TABLES_MAX as u64] {
        let name = format!("t{number}");
        tables.create(&name, small()).unwrap();
        let epoch = START + number * 2 * SKEW + SKEW;
        assert!(!is_fresh(&tables.add(&name, &sequenced("client", epoch, 1))), "{name}");
        tables.add(&name, &sequenced("client", START + tables.now, 1)).applied();
    }
}

/// A catalogue of version 1, which had no deletions.
#[test]
fn a_catalogue_without_deletions_is_read() {
    let bytes = "01020106636c69636b73020280e0e2b5a2a3e7cb17002480897ac08db701c0843d8092f401017b14ae47e17a843f0101ac02808040010080e09ec0ebf5facb17028080bc8ac9d21380e0a596bb1180b09dc2df018080a4c9ffc18901000000904e808080800402057669657773010100002480897ac08db701c0843d8092f401017b14ae47e17a843f0101ac02808040";
    let bytes: Vec<u8> = bytes
        .as_bytes()
        .chunks(2)
        .map(|hex| u8::from_str_radix(str::from_utf8(hex).unwrap(), 16).unwrap())
        .collect();
    let catalog = Catalog::decode(&bytes).unwrap();
    let names: Vec<_> = catalog.iter().map(|table| (table.id.0, table.name.as_str())).collect();
    assert_eq!(names, [(1, "clicks"), (2, "views")]);
    assert_eq!(catalog.deleted().count(), 0);
    let later = catalog.create("other", settings(), at(0)).unwrap();
    assert_eq!(later.find("other").unwrap().id, TableId(3));
}
