//! The catalogue: all tables of a store, by name and by number.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use forgetful_filter::{Budget, Timestamp};

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::era::Era;
use crate::settings::{SettingsError, TableSettings};
use crate::table::{CatalogError, StoredEras, Table};

/// Maximum number of tables in a store, including deleted ones whose names are reserved.
pub const TABLES_MAX: usize = 1024;

/// Version 1 had no deleted tables.
const VERSION: u8 = 2;

/// All tables of a store. Immutable: a change makes a new version.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// By ascending number: numbers start at 1 and are never reused.
    tables: Vec<Arc<Table>>,
    names: BTreeMap<String, TableId>,
    /// By name. A name is in use or deleted, not both.
    deleted: BTreeMap<String, DeletedTable>,
    /// The last number given to a table.
    last: u32,
    /// The highest floor of the deleted tables that are not listed any more.
    unlisted_floor: Timestamp,
    /// The latest time at which a name was used again. No restart begins before it.
    time: Timestamp,
    /// Limits the filters of all tables together.
    budget: Budget,
}

/// A deleted table. Its name is reserved until no id of it can be taken for a new one: opaque ids until their
/// window ends, the others until their dates and epochs have passed. A later table of that name rejects dates
/// and epochs below the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTable {
    pub id: TableId,
    pub reserved_until: Timestamp,
    pub(crate) floor: Timestamp,
    /// Whether its cells are removed.
    pub removed: bool,
}

impl DeletedTable {
    fn is_reserved(&self, now: Timestamp) -> bool {
        !self.removed || now < self.reserved_until
    }
}

impl Catalog {
    /// No tables; the filters of later ones are charged to the budget.
    pub fn within(budget: &Budget) -> Self {
        Self { budget: budget.clone(), ..Self::default() }
    }

    /// The limit of all filters together, and what is in use.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    #[inline]
    pub fn get(&self, id: TableId) -> Option<&Arc<Table>> {
        // If no table was deleted, table n is at n - 1.
        match self.tables.get((id.0 as usize).wrapping_sub(1)) {
            Some(table) if table.id == id => Some(table),
            _ => self.position(id).map(|at| &self.tables[at]),
        }
    }

    fn position(&self, id: TableId) -> Option<usize> {
        self.tables.binary_search_by_key(&id, |table| table.id).ok()
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Table>> {
        self.get(*self.names.get(name)?)
    }

    /// All tables, ordered by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter()
    }

    /// Whether a table of this number existed and was deleted.
    pub fn was_deleted(&self, id: TableId) -> bool {
        (1..=self.last).contains(&id.0) && self.get(id).is_none()
    }

    pub fn deleted(&self) -> impl Iterator<Item = &DeletedTable> {
        self.deleted.values()
    }

    /// The deleted table for which a name is reserved at this time.
    pub fn reservation(&self, name: &str, now: Timestamp) -> Option<&DeletedTable> {
        self.deleted.get(name).filter(|deleted| deleted.is_reserved(now))
    }

    /// The latest time at which the name of a deleted table was used again. The store clock must not go back
    /// behind it, because the name was reserved until then.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The catalogue with one more table.
    pub fn create(&self, name: &str, settings: TableSettings, now: Timestamp) -> Result<Self, SettingsError> {
        let refuse = |why| Err(SettingsError { setting: "table", why });
        if self.names.contains_key(name) {
            return refuse(format!("there is a table {name:?} already"));
        }
        if self.reservation(name, now).is_some() {
            return refuse(format!("the name {name:?} is reserved for a deleted table"));
        }
        let reserved = self.deleted().filter(|deleted| deleted.is_reserved(now)).count();
        if self.tables.len() + reserved >= TABLES_MAX {
            return refuse(format!(
                "a store has at most {TABLES_MAX} tables, including the {reserved} deleted ones whose names are reserved"
            ));
        }
        let mut next = self.clone();
        let mut floor = self.unlisted_floor;
        if let Some(deleted) = next.deleted.remove(name) {
            (floor, next.time) = (deleted.floor, self.time.max(now));
        }
        let Some(last) = self.last.checked_add(1) else { return refuse("all table numbers are used".into()) };
        let table = Table::create(TableId(last), name, settings, floor, &self.budget)?;
        next.names.insert(name.into(), table.id);
        next.tables.push(Arc::new(table));
        next.last = last;
        Ok(next)
    }

    /// The catalogue without a table; `None` if it does not exist. No id of the table is accepted after
    /// `now`.
    #[must_use]
    pub fn delete(&self, name: &str, now: Timestamp) -> Option<Self> {
        let mut next = self.clone();
        let id = next.names.remove(name)?;
        let table = next.tables.remove(self.position(id)?);
        if next.deleted.len() >= TABLES_MAX {
            let unreserved = next.deleted.iter().filter(|(_, deleted)| !deleted.is_reserved(now));
            let oldest = unreserved.min_by_key(|(_, deleted)| deleted.floor).map(|(name, _)| name.clone());
            let Some(oldest) = oldest.and_then(|name| next.deleted.remove(&name)) else {
                unreachable!("tables and reserved names together are at most TABLES_MAX");
            };
            next.unlisted_floor = next.unlisted_floor.max(oldest.floor);
        }
        let (floor, reserved_until) = table.ids_end(now);
        next.deleted.insert(name.into(), DeletedTable { id, reserved_until, floor, removed: false });
        Some(next)
    }

    /// The catalogue after the cells of a deleted table were removed.
    #[must_use]
    pub fn removed(&self, id: TableId) -> Self {
        let mut next = self.clone();
        next.deleted
            .values_mut()
            .filter(|deleted| deleted.id == id)
            .for_each(|deleted| deleted.removed = true);
        next
    }

    /// The catalogue with a table replaced by its next version.
    #[must_use]
    pub fn replaced(&self, table: Table) -> Self {
        let mut next = self.clone();
        let at = self.position(table.id);
        let place = at.map(|at| &mut next.tables[at]).filter(|old| old.name == table.name);
        *place.expect("a table keeps its number and its name") = Arc::new(table);
        next
    }

    /// A later catalogue, which another store has [encoded](Self::encode), for a store that has decided under
    /// this one until `now`. Eras that are in both keep their filters.
    pub fn adopt(&self, later: &[u8], now: Timestamp) -> Result<Self, CatalogError> {
        struct Known<'a>(&'a Catalog);
        impl StoredEras for Known<'_> {
            fn open(&self, _: TableId, _: u32) -> Option<impl io::Read> {
                None::<io::Empty>
            }

            fn known(&self, table: TableId, era: u32) -> Option<(Arc<Era>, Timestamp)> {
                self.0.get(table)?.era(era)
            }
        }
        let mut later = Self::restore(later, &self.budget, Timestamp::ZERO, &Known(self))?;
        for table in &mut later.tables {
            if let Some(known) = self.get(table.id) {
                *table = Arc::new(table.after(known, now));
            }
        }
        Ok(later)
    }

    /// The catalogue for a store that may have decided under any of its eras until `now`: it learned of
    /// changes that other stores made at unknown times.
    #[must_use]
    pub fn taken_over_at(&self, now: Timestamp) -> Self {
        let tables = self.tables.iter().map(|table| Arc::new(table.ended_at(0, now))).collect();
        Self { tables, ..self.clone() }
    }

    /// Encodes the catalogue without the filters.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_varint(self.time.as_nanos());
        out.put_varint(self.unlisted_floor.as_nanos());
        out.put_varint(u64::from(self.last));
        out.put_varint(self.tables.len() as u64);
        for table in &self.tables {
            table.encode(&mut out);
        }
        out.put_varint(self.deleted.len() as u64);
        for (name, deleted) in &self.deleted {
            out.put_bytes(name.as_bytes());
            out.put_varint(u64::from(deleted.id.0));
            out.put_varint(deleted.reserved_until.as_nanos());
            out.put_varint(deleted.floor.as_nanos());
            out.put_u8(u8::from(deleted.removed));
        }
        out
    }

    /// Reads what [`encode`](Self::encode) wrote; the filters are empty.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        Self::restore(bytes, &Budget::default(), Timestamp::ZERO, &())
    }

    /// Reads what [`encode`](Self::encode) wrote, with the stored filters; `now` is a time in the log.
    pub fn restore(
        bytes: &[u8],
        budget: &Budget,
        now: Timestamp,
        filters: &impl StoredEras,
    ) -> Result<Self, CatalogError> {
        let mut input = Reader::new(bytes);
        let version = input.u8()?;
        if !(1..=VERSION).contains(&version) {
            return Err(DecodeError("a catalogue of an unknown version").into());
        }
        let mut catalog = Self::within(budget);
        if version > 1 {
            catalog.time = Timestamp::from_nanos(input.varint()?);
            catalog.unlisted_floor = Timestamp::from_nanos(input.varint()?);
            catalog.last = input.varint32()?;
        }
        let count = input.count()?;
        if count > TABLES_MAX {
            return Err(DecodeError("too many tables").into());
        }
        if version == 1 {
            catalog.last = count as u32;
        }
        for _ in 0..count {
            let table = Table::restore(&mut input, version, budget, now, filters)?;
            let before = catalog.tables.last().map_or(0, |last| last.id.0);
            let in_order = (before + 1..=catalog.last).contains(&table.id.0);
            if !in_order || catalog.names.insert(table.name.clone(), table.id).is_some() {
                return Err(DecodeError("a catalogue with tables out of order").into());
            }
            catalog.tables.push(Arc::new(table));
        }
        if version > 1 {
            catalog.decode_deleted(&mut input)?;
        }
        input.finish()?;
        Ok(catalog)
    }

    fn decode_deleted(&mut self, input: &mut Reader<'_>) -> Result<(), DecodeError> {
        let count = input.count()?;
        if count > TABLES_MAX {
            return Err(DecodeError("too many deleted tables"));
        }
        for _ in 0..count {
            let name = input.text()?.to_owned();
            let deleted = DeletedTable {
                id: TableId(input.varint32()?),
                reserved_until: Timestamp::from_nanos(input.varint()?),
                floor: Timestamp::from_nanos(input.varint()?),
                removed: input.flag()?,
            };
            let twice = self.names.contains_key(&name) || self.deleted().any(|other| other.id == deleted.id);
            if twice || !self.was_deleted(deleted.id) || self.deleted.insert(name, deleted).is_some() {
                return Err(DecodeError("a deleted table that is still there, or listed twice"));
            }
        }
        Ok(())
    }
}
