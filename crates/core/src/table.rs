//! A table: its name, its settings now, and the eras before whose promises still hold.

use std::sync::Arc;

use forgetful_filter::Timestamp;

use crate::address::TableId;
use crate::codec::{DecodeError, Reader, Write};
use crate::era::Era;
use crate::hash::IdKey;
use crate::id::{Format, OpId};
use crate::limits::TABLE_NAME_BYTES_MAX;
use crate::replay::ReplayError;
use crate::settings::{SettingsError, TableSettings};

/// The most eras of a table: so often can its settings be changed within its longest window.
pub const ERAS_MAX: usize = 16;

/// A table. To change one, make the next version of it and let the old one go.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name.
    pub name: String,
    present: Arc<Era>,
    /// The latest first.
    past: Vec<Past>,
}

/// An era that takes no more ids.
#[derive(Debug, Clone)]
struct Past {
    era: Arc<Era>,
    /// When its last promise ends.
    until: Timestamp,
}

impl Past {
    /// All ids taken in the era are dated before this.
    fn dated_before(&self) -> Timestamp {
        const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);
        if self.until == END_OF_TIME {
            // It was cut off there, and tells nothing of when the era ended.
            return END_OF_TIME;
        }
        let settings = &self.era.settings;
        let memory = u64::try_from(settings.memory().as_nanos()).unwrap_or(u64::MAX);
        settings.dated_before(Timestamp::from_nanos(self.until.as_nanos().saturating_sub(memory)))
    }
}

/// Whether a table can have this name.
pub fn check_name(name: &str) -> Result<(), SettingsError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let good = (1..=TABLE_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if good {
        return Ok(());
    }
    let why =
        format!("{name:?} is no name: 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or a digit");
    Err(SettingsError { setting: "table", why })
}

impl Table {
    /// A new table.
    pub fn create(id: TableId, name: &str, settings: TableSettings) -> Result<Self, SettingsError> {
        check_name(name)?;
        let era = Era::begin(1, settings, Timestamp::ZERO)?;
        Ok(Self { id, name: name.into(), present: Arc::new(era), past: Vec::new() })
    }

    /// The present era.
    pub fn present(&self) -> &Era {
        &self.present
    }

    /// The settings now.
    pub fn settings(&self) -> &TableSettings {
        &self.present.settings
    }

    /// The eras, the present one first.
    pub fn eras(&self) -> impl Iterator<Item = &Arc<Era>> {
        std::iter::once(&self.present).chain(self.past.iter().map(|past| &past.era))
    }

    /// The eras with a promise left to keep.
    pub(crate) fn living(&self, now: Timestamp) -> impl Iterator<Item = &Era> + Clone {
        let living = move |past: &&Past| past.until >= now && !mutated!(PastErasIgnored);
        let past = self.past.iter().filter(living).map(|past| &*past.era);
        std::iter::once(&*self.present).chain(past)
    }

    /// Whether an earlier era may have taken an id of this date and forgotten it since: a later one, which would remember for
    /// longer, must not take it up again.
    pub(crate) fn forgotten(&self, dated: Timestamp, now: Timestamp) -> bool {
        if mutated!(EraFloorIgnored) {
            return false;
        }
        let mut later = &self.present;
        for past in &self.past {
            if dated >= later.floor {
                return false;
            }
            if dated < past.dated_before() && now.since(dated) > past.era.settings.dated_window {
                return true;
            }
            later = &past.era;
        }
        // Those before are gone, and have forgotten everything.
        dated < later.floor
    }

    /// Brings the memory of the present filters near that deciding on these ids will touch. Decides nothing. The processor waits for
    /// all of them at once.
    pub fn prefetch<'a>(&self, ids: impl Iterator<Item = (&'a OpId, IdKey)> + Clone) {
        let sifted = ids.filter(|(id, _)| id.format() != Format::Sequenced);
        self.present.prefetch(sifted.map(|(id, key)| (key, id.dated())));
    }

    /// Inserts an id into the filter of an era. Ids of an era that was dropped have expired and need no filter.
    pub(crate) fn insert_into_filter(
        &self,
        era: u32,
        key: IdKey,
        id: &OpId,
        now: Moment,
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

    /// The table with other settings from `now` on. Every promise already made is kept.
    ///
    /// No era is dropped here, though one may be over by now: no entry need be of this time, and whoever starts again with the clock
    /// set back would need it. That is for [`without_past`](Self::without_past).
    pub fn change(&self, settings: TableSettings, now: Timestamp) -> Result<Self, SettingsError> {
        let mut past = self.past.clone();
        if past.len() + 1 >= ERAS_MAX {
            let why =
                format!("changed {ERAS_MAX} times within the time it remembers; wait for the first to pass");
            return Err(SettingsError { setting: "table", why });
        }
        let old = &self.present;
        let floor = old.floor.max(old.settings.dated_before(now));
        let number = old.number.checked_add(1).ok_or_else(|| {
            let why = "changed as often as eras can be counted; make another table".to_owned();
            SettingsError { setting: "table", why }
        })?;
        let present = Arc::new(Era::begin(number, settings, floor)?);
        past.insert(0, Past { until: old.settings.promised_until(now), era: old.clone() });
        Ok(Self { id: self.id, name: self.name.clone(), present, past })
    }

    /// The past eras to be kept: up to the oldest with a promise left. One that is over is kept before it, to tell which ids
    /// it may have taken.
    fn past_at(&self, now: Timestamp) -> &[Past] {
        let kept = self.past.iter().rposition(|past| past.until >= now).map_or(0, |oldest| oldest + 1);
        &self.past[..kept]
    }

    /// The table without the eras that are over; nothing if there is none to drop. `now` is a time that the log has: no restart
    /// begins before it.
    pub fn without_past(&self, now: Timestamp) -> Option<Self> {
        let past = self.past_at(now);
        (past.len() < self.past.len()).then(|| Self { past: past.to_vec(), ..self.clone() })
    }

    /// The same table with filters taken from elsewhere: `fill` is given each era with empty filters.
    pub fn refilled<E>(
        &self,
        mut fill: impl FnMut(&mut Era) -> Result<(), E>,
    ) -> Result<Self, RefillError<E>> {
        let mut refill = |era: &Era| -> Result<Arc<Era>, RefillError<E>> {
            let mut fresh = Era::begin(era.number, era.settings.clone(), era.floor)?;
            fill(&mut fresh).map_err(RefillError::Fill)?;
            Ok(Arc::new(fresh))
        };
        let present = refill(&self.present)?;
        let mut past = Vec::with_capacity(self.past.len());
        for one in &self.past {
            past.push(Past { era: refill(&one.era)?, until: one.until });
        }
        Ok(Self { id: self.id, name: self.name.clone(), present, past })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(u64::from(self.id.0));
        out.put_bytes(self.name.as_bytes());
        out.put_varint(1 + self.past.len() as u64);
        let untils = std::iter::once(0).chain(self.past.iter().map(|past| past.until.as_nanos()));
        for (era, until) in self.eras().zip(untils) {
            out.put_varint(u64::from(era.number));
            out.put_varint(era.floor.as_nanos());
            out.put_varint(until);
            era.settings.encode(out);
        }
    }

    /// The table with empty filters.
    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id =
            TableId(u32::try_from(input.varint()?).map_err(|_| DecodeError("a table number too large"))?);
        let name = input.text()?;
        check_name(name).map_err(|_| DecodeError("a table name that cannot be"))?;
        let mut eras = Vec::new();
        let count = input.count()?;
        // Before any is made: each takes memory for its filters.
        if !(1..=ERAS_MAX).contains(&count) {
            return Err(DecodeError("a table without settings, or with too many"));
        }
        for _ in 0..count {
            let number =
                u32::try_from(input.varint()?).map_err(|_| DecodeError("an era number too large"))?;
            let floor = Timestamp::from_nanos(input.varint()?);
            let until = Timestamp::from_nanos(input.varint()?);
            let settings = TableSettings::decode(input)?;
            let era = Era::begin(number, settings, floor)
                .map_err(|_| DecodeError("settings without memory for them"))?;
            eras.push(Past { era: Arc::new(era), until });
        }
        if eras.windows(2).any(|two| two[1].era.number.checked_add(1) != Some(two[0].era.number)) {
            return Err(DecodeError("eras out of order"));
        }
        let present = eras.remove(0).era;
        Ok(Self { id, name: name.into(), present, past: eras })
    }
}

/// Why a table could not be refilled.
#[derive(Debug, thiserror::Error)]
pub enum RefillError<E> {
    /// There is no memory for the empty filters.
    #[error(transparent)]
    Begin(#[from] SettingsError),
    /// Whoever fills them failed.
    #[error("{0}")]
    Fill(E),
}
