//! The catalogue: all tables of a store, by name and by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use forgetful_filter::{Budget, Timestamp};

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::settings::{SettingsError, TableSettings};
use crate::table::{CatalogError, StoredEras, Table};

/// Maximum number of tables in a store.
pub const TABLES_MAX: usize = 1024;

const VERSION: u8 = 1;

/// All tables of a store. Immutable: a change makes a new version.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// By number - 1: numbers start at 1 and are never reused.
    tables: Vec<Arc<Table>>,
    names: BTreeMap<String, TableId>,
    /// Limits the filters of all tables together.
    budget: Budget,
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
        self.tables.get((id.0 as usize).checked_sub(1)?)
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Table>> {
        self.get(*self.names.get(name)?)
    }

    /// All tables, ordered by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter()
    }

    /// The catalogue with one more table.
    pub fn create(&self, name: &str, settings: TableSettings) -> Result<Self, SettingsError> {
        let refuse = |why| Err(SettingsError { setting: "table", why });
        if self.names.contains_key(name) {
            return refuse(format!("there is a table {name:?} already"));
        }
        if self.tables.len() >= TABLES_MAX {
            return refuse(format!("a store has at most {TABLES_MAX} tables"));
        }
        let id = TableId(self.tables.len() as u32 + 1);
        let table = Table::create(id, name, settings, &self.budget)?;
        let mut next = self.clone();
        next.names.insert(name.into(), id);
        next.tables.push(Arc::new(table));
        Ok(next)
    }

    /// The catalogue with a table replaced by its next version.
    #[must_use]
    pub fn replaced(&self, table: Table) -> Self {
        let mut next = self.clone();
        let at = table.id.0 as usize - 1;
        assert_eq!(next.tables[at].name, table.name, "a table keeps its number and its name");
        next.tables[at] = Arc::new(table);
        next
    }

    /// Encodes the catalogue without the filters.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_varint(self.tables.len() as u64);
        for table in &self.tables {
            table.encode(&mut out);
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
        if input.u8()? != VERSION {
            return Err(DecodeError("a catalogue of an unknown version").into());
        }
        let mut catalog = Self::within(budget);
        let count = input.count()?;
        if count > TABLES_MAX {
            return Err(DecodeError("too many tables").into());
        }
        for at in 0..count {
            let table = Table::restore(&mut input, budget, now, filters)?;
            if table.id.0 as usize != at + 1 || catalog.names.insert(table.name.clone(), table.id).is_some() {
                return Err(DecodeError("a catalogue with tables out of order").into());
            }
            catalog.tables.push(Arc::new(table));
        }
        input.finish()?;
        Ok(catalog)
    }
}
