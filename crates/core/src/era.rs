//! Eras of a table: each change of settings begins a new era; the old one stays until its last record
//! expires.
//!
//! Invariants: an id accepted in an era is found for the whole window of that era, even if the settings have
//! changed since; and an id whose record in an earlier era may have expired is not accepted by a later era
//! with a longer window.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use forgetful_filter::{
    Budget, DatedFilter, DatedIdError, ForgetfulFilter, OverBudget, SettingsError as FilterError,
    SnapshotError, Status, Timestamp,
};

use crate::codec::DecodeError;
use crate::generation::Generation;
use crate::hash::IdKey;
use crate::id::{Format, OpId};
use crate::settings::{Mode, SettingsError, TableSettings, UNUSED_KEY};
use crate::store_clock::with_clock_drift;

/// A period of unchanged settings, with the filters of the ids accepted in it.
pub struct Era {
    pub settings: TableSettings,
    /// Number of the era, unique in its table.
    pub number: u32,
    /// An id dated before this may have been accepted in an earlier era. It is accepted as new only while
    /// every era that may have accepted it would still have its record.
    /// It only rises.
    floor: AtomicU64,
    dated: Option<DatedFilter>,
    opaque: Option<ForgetfulFilter>,
    /// Up to this time the filters may lack ids, because memory ran out.
    leaky_until: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterAnswer {
    /// It was not accepted in this era.
    New,
    /// It may have been accepted.
    Maybe,
    /// The filter lost ids, and the table has no id index.
    Unknown,
    /// It may have been accepted, and the filter has dropped it because another partition's time is ahead.
    Forgotten,
}

impl Era {
    /// A new era with empty filters.
    pub(crate) fn begin(
        number: u32,
        settings: TableSettings,
        floor: Timestamp,
        budget: &Budget,
    ) -> Result<Self, SettingsError> {
        let (dated, opaque) = Self::filters(&settings, budget)?;
        let (floor, leaky_until) = (AtomicU64::new(floor.as_nanos()), AtomicU64::new(0));
        Ok(Self { settings, number, floor, dated, opaque, leaky_until })
    }

    /// The era with empty filters for few ids, if its stored ones do not fit into memory. Until all ids that
    /// they had have expired, every id is looked up in the id index; a probabilistic era has none.
    pub(crate) fn without_stored_filters(
        (number, settings, floor): (u32, TableSettings, Timestamp),
        budget: &Budget,
        now: Timestamp,
    ) -> Result<Self, FilterRestoreError> {
        if settings.mode != Mode::Exact {
            return Err(FilterRestoreError::Required);
        }
        let (dated, opaque) = Self::filters(&TableSettings { expected_ids: 1, ..settings.clone() }, budget)?;
        let window = settings.dated_window.max(with_clock_drift(settings.opaque_window)) + settings.skew;
        let leaky_until = AtomicU64::new(now.after(window).as_nanos());
        let floor = AtomicU64::new(floor.as_nanos());
        Ok(Self { settings, number, floor, dated, opaque, leaky_until })
    }

    /// Empty filters for the formats of the settings.
    fn filters(
        settings: &TableSettings,
        budget: &Budget,
    ) -> Result<(Option<DatedFilter>, Option<ForgetfulFilter>), SettingsError> {
        settings.check()?;
        let refuse = |window| {
            move |error: FilterError| {
                let setting = if matches!(error, FilterError::OverBudget(_)) { "memory_max" } else { window };
                SettingsError { setting, why: error.to_string() }
            }
        };
        let dated = has_dated_filter(settings)
            .then(|| settings.dated_filter().build_dated_within(UNUSED_KEY, budget))
            .transpose();
        let opaque = settings
            .formats
            .contains(Format::Opaque)
            .then(|| settings.opaque_filter().build_within(UNUSED_KEY, budget))
            .transpose();
        Ok((dated.map_err(refuse("dated_window"))?, opaque.map_err(refuse("opaque_window"))?))
    }

    /// The era with the filters that [`write_filters`](Self::write_filters) wrote. They are allocated once.
    pub(crate) fn restore(
        (number, settings, floor): (u32, TableSettings, Timestamp),
        budget: &Budget,
        input: &mut dyn io::Read,
        now: Timestamp,
    ) -> Result<Self, FilterRestoreError> {
        let (mut leaky_until, mut there) = ([0; 8], [0; 2]);
        input.read_exact(&mut leaky_until)?;
        input.read_exact(&mut there)?;
        let there = there.map(|there| there == 1);
        if there != [has_dated_filter(&settings), settings.formats.contains(Format::Opaque)] {
            return Err(DecodeError("filters of other formats than the table's").into());
        }
        let cap = usize::try_from(settings.memory_cap).unwrap_or(usize::MAX);
        let [dated, opaque] = there;
        let dated = dated
            .then(|| DatedFilter::read_snapshot_within(input, UNUSED_KEY, now, cap, budget))
            .transpose()?;
        let opaque = opaque
            .then(|| ForgetfulFilter::read_snapshot_within(input, UNUSED_KEY, now, cap, budget))
            .transpose()?;
        if input.read(&mut [0])? != 0 {
            return Err(DecodeError("bytes after the filters").into());
        }
        let leaky_until = AtomicU64::new(u64::from_le_bytes(leaky_until));
        let floor = AtomicU64::new(floor.as_nanos());
        Ok(Self { settings, number, floor, dated, opaque, leaky_until })
    }

    pub(crate) fn lookup(&self, key: IdKey, dated: Option<Timestamp>, now: Timestamp) -> FilterAnswer {
        let fingerprint = key.fingerprint();
        let leaky = self.leaky_until.load(Ordering::Relaxed) >= now.as_nanos();
        let maybe = match dated {
            Some(dated) => {
                if leaky {
                    // The id index has the ids that the filter lacks; a probabilistic table has no index.
                    return match self.settings.mode {
                        Mode::Exact => FilterAnswer::Maybe,
                        Mode::Probabilistic { .. } => FilterAnswer::Unknown,
                    };
                }
                match self.dated.as_ref().map(|filter| filter.contains_fingerprint(fingerprint, dated, now)) {
                    Some(Ok(maybe)) => maybe,
                    Some(Err(_)) if now.since(dated) <= self.settings.dated_window => {
                        return FilterAnswer::Forgotten;
                    }
                    // Outside the era's window, which the caller has checked.
                    Some(Err(_)) | None => false,
                }
            }
            None if leaky && self.settings.mode == Mode::Exact => true,
            None => self.opaque.as_ref().is_some_and(|filter| filter.contains_fingerprint(fingerprint, now)),
        };
        if maybe { FilterAnswer::Maybe } else { FilterAnswer::New }
    }

    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = (IdKey, Option<Timestamp>)> + Clone) {
        if let Some(filter) = &self.dated {
            let dated = ids.clone().filter_map(|(key, dated)| Some((key.fingerprint(), dated?)));
            filter.prefetch(dated);
        }
        if let Some(filter) = &self.opaque {
            let opaque = ids.filter(|(_, dated)| dated.is_none());
            filter.prefetch(opaque.map(|(key, _)| key.fingerprint()));
        }
    }

    /// Inserts an id into the filter of its format. False if the era does not accept ids of that format.
    #[must_use]
    pub(crate) fn insert(&self, key: IdKey, id: &OpId, now: Timestamp) -> bool {
        if !self.settings.formats.contains(id.format()) {
            return false;
        }
        let fingerprint = key.fingerprint();
        match (id.dated(), &self.dated, &self.opaque) {
            (Some(dated), Some(filter), _) => match filter.insert_fingerprint(fingerprint, dated, now) {
                // Only in a replay: an id that has expired since needs no filter.
                Ok(()) | Err(DatedIdError::Expired) => {}
                // Never lost silently: until the id expires, the filter is not trusted.
                Err(_) => {
                    let until = dated.max(now).after(self.settings.dated_window + self.settings.skew);
                    self.leaky_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
                }
            },
            (None, _, Some(filter)) => filter.insert_fingerprint(fingerprint, now),
            // A sequenced id is recorded in its session; the other formats have a filter since the era began.
            _ => return false,
        }
        true
    }

    /// The generation of the record of an id that is accepted now.
    pub(crate) fn generation(&self, dated: Option<Timestamp>, now: Timestamp) -> Generation {
        let TableSettings { dated_window, opaque_window, .. } = self.settings;
        match dated {
            Some(dated) => Generation::of(dated.after(dated_window), dated_window),
            None => Generation::of(now.after(with_clock_drift(opaque_window)), opaque_window),
        }
    }

    /// The generations that may hold an id of this era, the likeliest first.
    pub(crate) fn candidates(&self, dated: Option<Timestamp>, now: Timestamp) -> Vec<Generation> {
        if dated.is_some() {
            return vec![self.generation(dated, now)];
        }
        let window = self.settings.opaque_window;
        Generation::between(now, now.after(with_clock_drift(window)), window).collect()
    }

    pub fn floor(&self) -> Timestamp {
        Timestamp::from_nanos(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn raise_floor(&self, floor: Timestamp) {
        self.floor.fetch_max(floor.as_nanos(), Ordering::Relaxed);
    }

    pub fn maintain(&self, now: Timestamp) {
        if let Some(filter) = &self.dated {
            filter.maintain(now);
        }
        if let Some(filter) = &self.opaque {
            filter.maintain(now);
        }
    }

    /// Status of the filter of dated ids and of that of opaque ids.
    pub fn status(&self) -> (Option<Status>, Option<Status>) {
        (self.dated.as_ref().map(DatedFilter::status), self.opaque.as_ref().map(ForgetfulFilter::status))
    }

    pub fn filter_bytes(&self) -> usize {
        self.dated.as_ref().map_or(0, DatedFilter::bytes)
            + self.opaque.as_ref().map_or(0, ForgetfulFilter::bytes)
    }

    /// Writes the filters incrementally, without a second copy in memory. The output has every id inserted
    /// before this call; ids inserted meanwhile may be missing.
    pub fn write_filters(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&self.leaky_until.load(Ordering::Relaxed).to_le_bytes())?;
        out.write_all(&[u8::from(self.dated.is_some()), u8::from(self.opaque.is_some())])?;
        self.dated.as_ref().map_or(Ok(()), |filter| filter.write_snapshot(out))?;
        self.opaque.as_ref().map_or(Ok(()), |filter| filter.write_snapshot(out))
    }
}

fn has_dated_filter(settings: &TableSettings) -> bool {
    let carries_time = |format| matches!(format, Format::Uuid7 | Format::Ulid | Format::Event);
    settings.formats.iter().any(carries_time)
}

impl std::fmt::Debug for Era {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Era")
            .field("number", &self.number)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Why the filters of an era cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterRestoreError {
    /// The bytes around the filters are invalid.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error("{0}")]
    Filter(SnapshotError),
    #[error("{0}")]
    OverBudget(OverBudget),
    /// The filters of a probabilistic era cannot be left out.
    #[error("a probabilistic table needs its filters")]
    Required,
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// New filters cannot be built.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl From<SnapshotError> for FilterRestoreError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::OverBudget(over) => Self::OverBudget(over),
            other => Self::Filter(other),
        }
    }
}
