//! A table: its name, its current settings, and earlier eras whose windows have not ended.

use std::io;
use std::sync::Arc;

use forgetful_filter::{Budget, Timestamp};

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::era::{Era, FilterRestoreError};
use crate::generation::Generation;
use crate::hash::IdKey;
use crate::id::{Format, OpId};
use crate::limits::TABLE_NAME_BYTES_MAX;
use crate::log_entry::millis;
use crate::replay::ReplayError;
use crate::settings::{Mode, SLACK, SettingsError, TableSettings};
use crate::store_clock::with_clock_drift;

/// Maximum number of eras of a table: limits how often its settings can change within its longest window.
pub const ERAS_MAX: usize = 16;

/// A table. Immutable: a change makes a new version.
#[derive(Debug, Clone)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    present: Arc<Era>,
    /// The latest first.
    past: Vec<Past>,
    /// Ids dated before this and epochs up to it may belong to a deleted table of this name.
    floor: Timestamp,
    /// Limits the filters of all tables together.
    budget: Budget,
}

/// An era that accepts no more ids.
#[derive(Debug, Clone)]
struct Past {
    era: Arc<Era>,
    /// When its last dedup record expires.
    until: Timestamp,
}

impl Past {
    /// When the era accepted its last id.
    fn ended(&self) -> Timestamp {
        const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);
        if self.until == END_OF_TIME {
            // The time saturated, so it does not say when the era ended.
            return END_OF_TIME;
        }
        let memory = u64::try_from(self.era.settings.memory().as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(self.until.as_nanos().saturating_sub(memory))
    }

    /// All ids accepted in the era are dated before this.
    fn dated_before(&self) -> Timestamp {
        self.era.settings.dated_before(self.ended())
    }
}

pub fn check_name(name: &str) -> Result<(), SettingsError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let valid = (1..=TABLE_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if valid {
        return Ok(());
    }
    let why = format!(
        "{name:?} is not a valid name: 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or a digit"
    );
    Err(SettingsError { setting: "table", why })
}

impl Table {
    pub(crate) fn create(
        id: TableId,
        name: &str,
        settings: TableSettings,
        floor: Timestamp,
        budget: &Budget,
    ) -> Result<Self, SettingsError> {
        check_name(name)?;
        let present = Arc::new(Era::begin(1, settings, floor, budget)?);
        Ok(Self { id, name: name.into(), present, past: Vec::new(), floor, budget: budget.clone() })
    }

    /// The highest epoch that may belong to a deleted table of this name.
    pub(crate) fn epoch_floor(&self) -> Option<u64> {
        (self.floor > Timestamp::ZERO).then(|| self.floor.as_nanos() / 1_000_000)
    }

    /// For a table that accepts no id after `now`: the time before which all dates and epochs of its ids are,
    /// and the time at which no id of it can be taken for a new one.
    pub(crate) fn ids_end(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let skew = self.eras().map(|era| era.settings.skew).max().unwrap_or_default();
        let floor = Timestamp::from_millis(millis(now.after(skew)).saturating_add(1)).max(self.floor);
        // An earlier era may have accepted ids a little after it ended.
        let ended = |past: &Past| past.ended().after(SLACK).min(now);
        let ends = std::iter::once(now).chain(self.past.iter().map(ended));
        let opaque = self.eras().zip(ends).filter(|(era, _)| era.settings.formats.contains(Format::Opaque));
        let windows = opaque.map(|(era, end)| end.after(with_clock_drift(era.settings.opaque_window)));
        (floor, windows.fold(floor, Timestamp::max))
    }

    pub fn present(&self) -> &Era {
        &self.present
    }

    pub fn settings(&self) -> &TableSettings {
        &self.present.settings
    }

    pub fn eras(&self) -> impl Iterator<Item = &Arc<Era>> {
        std::iter::once(&self.present).chain(self.past.iter().map(|past| &past.era))
    }

    /// An era, and when its last dedup record expires; 0 for the present one.
    pub(crate) fn era(&self, number: u32) -> Option<(Arc<Era>, Timestamp)> {
        if self.present.number == number {
            return Some((self.present.clone(), Timestamp::ZERO));
        }
        let past = self.past.iter().find(|past| past.era.number == number)?;
        Some((past.era.clone(), past.until))
    }

    /// The eras whose dedup records have not all expired.
    pub(crate) fn living(&self, now: Timestamp) -> impl Iterator<Item = &Era> + Clone {
        let living = move |past: &&Past| past.until >= now && !mutated!(PastErasIgnored);
        let past = self.past.iter().filter(living).map(|past| &*past.era);
        std::iter::once(&*self.present).chain(past)
    }

    /// The generations that may hold the dedup record of an id of this date.
    pub(crate) fn candidates(
        &self,
        dated: Option<Timestamp>,
        now: Timestamp,
    ) -> impl Iterator<Item = Generation> {
        let exact = self.living(now).filter(|era| era.settings.mode == Mode::Exact);
        exact.flat_map(move |era| era.candidates(dated, now))
    }

    /// Whether an earlier era may have accepted an id of this date and its record has expired. A later era
    /// with a longer window must not accept it again.
    pub(crate) fn forgotten(&self, dated: Timestamp, now: Timestamp) -> bool {
        if mutated!(EraFloorIgnored) {
            return false;
        }
        let mut later = &self.present;
        for past in &self.past {
            if dated >= later.floor() {
                return false;
            }
            if dated < past.dated_before() && now.since(dated) > past.era.settings.dated_window {
                return true;
            }
            later = &past.era;
        }
        // The eras before were dropped, so all their records have expired.
        dated < later.floor()
    }

    /// Prefetches the memory of the current filters for these ids. The processor loads all of it
    /// concurrently.
    pub fn prefetch<'a>(&self, ids: impl Iterator<Item = (&'a OpId, IdKey)> + Clone) {
        let filtered = ids.filter(|(id, _)| id.format() != Format::Sequenced);
        self.present.prefetch(filtered.map(|(id, key)| (key, id.dated())));
    }

    /// Inserts an id into the filter of an era. Ids of an era that was dropped have expired and need no
    /// filter.
    pub(crate) fn insert_into_filter(
        &self,
        era: u32,
        key: IdKey,
        id: &OpId,
        now: Timestamp,
    ) -> Result<(), ReplayError> {
        let newest = self.present.number;
        if era > newest {
            return Err(ReplayError::UnknownEra { table: self.id, era, newest });
        }
        match self.eras().find(|one| one.number == era) {
            Some(found) if !found.insert(key, id, now) => {
                Err(ReplayError::Format { table: self.id, era, format: id.format() })
            }
            _ => Ok(()),
        }
    }

    /// The table with other settings from `now` on. The windows of earlier eras still apply.
    ///
    /// Drops no era, even if its records have expired by now: the log may hold no entry of this time, and a
    /// restart with the clock set back would need it. See [`without_past`](Self::without_past).
    pub fn change(&self, settings: TableSettings, now: Timestamp) -> Result<Self, SettingsError> {
        let mut past = self.past.clone();
        if past.len() + 1 >= ERAS_MAX {
            let why = format!(
                "the settings changed {ERAS_MAX} times within the longest window; wait until the first change expires"
            );
            return Err(SettingsError { setting: "table", why });
        }
        let old = &self.present;
        let floor = old.floor().max(old.settings.dated_before(now));
        let number = old.number.checked_add(1).ok_or_else(|| {
            let why = "all era numbers of this table are used; create another table".to_owned();
            SettingsError { setting: "table", why }
        })?;
        let present = Arc::new(Era::begin(number, settings, floor, &self.budget)?);
        past.insert(0, Past { until: old.settings.promised_until(now), era: old.clone() });
        Ok(Self { present, past, ..self.clone() })
    }

    /// The past eras to keep: up to the oldest with a record that has not expired. An era before it is kept
    /// even if all its records have expired, to know which ids it may have accepted.
    fn past_at(&self, now: Timestamp) -> &[Past] {
        let kept = self.past.iter().rposition(|past| past.until >= now).map_or(0, |oldest| oldest + 1);
        &self.past[..kept]
    }

    /// The table without expired eras; `None` if there is none. `now` is a time in the log: no restart begins
    /// before it.
    pub fn without_past(&self, now: Timestamp) -> Option<Self> {
        let past = self.past_at(now);
        (past.len() < self.past.len()).then(|| Self { past: past.to_vec(), ..self.clone() })
    }

    /// The table after a change, for a store that has decided under `known` until `now`. Eras that the store
    /// has dropped do not come back: their ends in this version may be too early.
    pub(crate) fn after(&self, known: &Self, now: Timestamp) -> Self {
        let mut next = self.ended_at(known.present.number, now);
        let oldest = known.eras().map(|era| era.number).min().unwrap_or(0);
        next.past.retain(|past| past.era.number >= oldest);
        next
    }

    /// The table for a store that may have accepted ids until `now` under the past eras from this number on:
    /// the store that changed the settings has another clock, and this one learned of the change later.
    pub(crate) fn ended_at(&self, from: u32, now: Timestamp) -> Self {
        let mut next = self.clone();
        if mutated!(AdoptKeepsEraEnds) {
            return next;
        }
        let mut later: Vec<Arc<Era>> = self.eras().cloned().collect();
        later.pop();
        for (past, later) in next.past.iter_mut().zip(later).rev().filter(|(past, _)| past.era.number >= from)
        {
            let settings = &past.era.settings;
            past.until = past.until.max(settings.promised_until(now));
            later.raise_floor(settings.dated_before(now).max(past.era.floor()));
        }
        next
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(u64::from(self.id.0));
        out.put_bytes(self.name.as_bytes());
        out.put_varint(self.floor.as_nanos());
        out.put_varint(1 + self.past.len() as u64);
        let untils = std::iter::once(0).chain(self.past.iter().map(|past| past.until.as_nanos()));
        for (era, until) in self.eras().zip(untils) {
            out.put_varint(u64::from(era.number));
            out.put_varint(era.floor().as_nanos());
            out.put_varint(until);
            era.settings.encode(out);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote in a catalogue of this version, with the stored filters.
    pub(crate) fn restore(
        input: &mut Reader<'_>,
        version: u8,
        budget: &Budget,
        now: Timestamp,
        filters: &impl StoredEras,
    ) -> Result<Self, CatalogError> {
        let id = TableId(input.varint32()?);
        let name = input.text()?;
        check_name(name).map_err(|_| DecodeError("an invalid table name"))?;
        let floor = if version > 1 { Timestamp::from_nanos(input.varint()?) } else { Timestamp::ZERO };
        let mut eras = Vec::new();
        let count = input.count()?;
        // Checked before any era is created: each allocates its filters.
        if !(1..=ERAS_MAX).contains(&count) {
            return Err(DecodeError("a table without settings, or with too many").into());
        }
        for _ in 0..count {
            let number = input.varint32()?;
            let known = filters.known(id, number);
            let floor = Timestamp::from_nanos(input.varint()?);
            let until = Timestamp::from_nanos(input.varint()?);
            let settings = TableSettings::decode(input)?;
            if let Some((era, known_until)) = known {
                era.raise_floor(floor);
                eras.push(Past { era, until: until.max(known_until) });
                continue;
            }
            let era = match filters.open(id, number) {
                _ if filters.omits(id, number) => {
                    Era::without_stored_filters((number, settings, floor), budget, now)
                }
                Some(mut stored) => Era::restore((number, settings, floor), budget, &mut stored, now),
                None => Era::begin(number, settings, floor, budget).map_err(FilterRestoreError::from),
            };
            let era =
                era.map_err(|why| CatalogError::Filters { table: name.into(), era: (id, number), why })?;
            eras.push(Past { era: Arc::new(era), until });
        }
        if eras.windows(2).any(|two| two[1].era.number.checked_add(1) != Some(two[0].era.number)) {
            return Err(DecodeError("eras out of order").into());
        }
        let present = eras.remove(0).era;
        Ok(Self { id, name: name.into(), present, past: eras, floor, budget: budget.clone() })
    }
}

/// The stored filters of eras, as [`Era::write_filters`] wrote them.
pub trait StoredEras {
    /// `None` if nothing is stored: the era is new and the log contains all of its ids.
    fn open(&self, table: TableId, era: u32) -> Option<impl io::Read>;

    /// An era that is in memory already, and when its last record expires, if it has ended.
    fn known(&self, _table: TableId, _era: u32) -> Option<(Arc<Era>, Timestamp)> {
        None
    }

    /// Whether the filters of an era are left out, because they do not fit into memory.
    fn omits(&self, _table: TableId, _era: u32) -> bool {
        false
    }
}

/// Nothing is stored.
impl StoredEras for () {
    fn open(&self, _: TableId, _: u32) -> Option<impl io::Read> {
        None::<io::Empty>
    }
}

/// Why a catalogue cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("the catalogue: {0}")]
    Malformed(#[from] DecodeError),
    #[error("the filters of the table {table}: {why}")]
    Filters { table: String, era: (TableId, u32), why: FilterRestoreError },
}
