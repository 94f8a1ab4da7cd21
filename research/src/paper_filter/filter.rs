//! The N-FBF: insertion, membership, refresh.
//!
//! Invariant: filter `i` contains the ids inserted while it was the future or the present, and nothing else.
//! Time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use super::check::Check;
use super::estimate::{Estimate, Load};
use super::positions::Positions;
use super::settings::{PaperError, Settings};
use super::stack::Stack;
use forgetful_filter::Fingerprint;

/// The forgetful Bloom filter of the paper (N-FBF). See the [module](super) for where it loses live ids.
#[doc(alias = "Mode::Paper")]
pub struct PaperFilter {
    settings: Settings,
    stack: Stack,
    /// The load of each filter of the stack, in the same order.
    loads: VecDeque<Load>,
    generation: u64,
    next_refresh: Duration,
}

impl PaperFilter {
    /// An empty filter at time zero; the first refresh is due after one period.
    ///
    /// # Errors
    /// When a setting is out of bounds, or memory is.
    pub fn new(settings: Settings) -> Result<Self, PaperError> {
        settings.validate()?;
        let mut filter = Self {
            settings,
            stack: Stack::new(settings.bits, settings.filters)?,
            loads: VecDeque::from(vec![Load::default(); settings.filters]),
            generation: 0,
            next_refresh: settings.period,
        };
        filter.open_generation();
        Ok(filter)
    }

    /// Writes the id into future and present, whether or not it tests positive (as the authors' prototype
    /// does).
    pub fn insert(&mut self, id: Fingerprint) {
        for position in Positions::new(id, &self.settings).iter() {
            self.stack.set(0, position);
            self.stack.set(1, position);
        }
        if let Some(future) = self.loads.get_mut(0) {
            future.as_future.ids += 1;
        }
        if let Some(present) = self.loads.get_mut(1) {
            present.as_present.ids += 1;
        }
    }

    /// Algorithm 1: writes the id only if it tests negative; returns whether it was written.
    ///
    /// An id that is skipped because of a false positive is *not remembered*: it will be reported absent once
    /// the ids it collided with are forgotten, although it was "inserted" less than the retention ago.
    pub fn insert_guarded(&mut self, id: Fingerprint, check: Check) -> bool {
        let absent = !self.contains(id, check);
        if absent {
            self.insert(id);
        }
        absent
    }

    /// Whether the id is reported as a member.
    pub fn contains(&self, id: Fingerprint, check: Check) -> bool {
        let positions = Positions::new(id, &self.settings);
        check.decide(self.filters(), |filter| self.stack.contains(filter, positions.iter()))
    }

    /// Whether one constituent filter has all bits of the id. Filter 0 is the future.
    pub fn filter_contains(&self, filter: usize, id: Fingerprint) -> bool {
        self.stack.contains(filter, Positions::new(id, &self.settings).iter())
    }

    /// One refresh, now: drops the oldest filter, moves each other filter to its next role, opens an empty
    /// future.
    pub fn refresh(&mut self) {
        self.stack.shift();
        self.loads.pop_back();
        self.loads.push_front(Load::default());
        self.generation += 1;
        self.open_generation();
    }

    /// Does the refreshes that are due at `now`, counted from the start, and returns their number. A time
    /// before an earlier one changes nothing.
    ///
    /// A new period counts from the next refresh on, as in the prototype, whose thread is asleep until then.
    pub fn advance(&mut self, now: Duration) -> u128 {
        let Some(late) = now.checked_sub(self.next_refresh) else { return 0 };
        let due = late.as_nanos() / self.settings.period.as_nanos() + 1;
        // After as many refreshes as there are filters all are empty: the rest would change nothing.
        for _ in 0..due.min(self.filters() as u128) {
            self.refresh();
        }
        let after =
            self.next_refresh.as_nanos().saturating_add(self.settings.period.as_nanos().saturating_mul(due));
        self.next_refresh = duration_from_nanos(after);
        due
    }

    /// When the next refresh is due.
    pub fn next_refresh(&self) -> Duration {
        self.next_refresh
    }

    /// The settings as they are now: [`Resizer`](super::Resizer) changes filters and period.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Constituent filters (`N + 2`).
    pub fn filters(&self) -> usize {
        self.stack.len()
    }

    /// The age below which the paper promises to find an id: `(N + 1) t` (Sec. V-D). See the [module](super)
    /// for the exceptions; with a changing period it holds for the current settings only.
    pub fn promised_retention(&self) -> Duration {
        let periods = u32::try_from(self.filters() - 1).unwrap_or(u32::MAX);
        self.settings.period.saturating_mul(periods)
    }

    /// Bytes of bits in the constituent filters.
    pub fn bytes(&self) -> usize {
        self.stack.bytes()
    }

    /// Insertions into one constituent filter (the paper's `l_i`); 0 for a filter that does not exist.
    pub fn ids_inserted(&self, filter: usize) -> u64 {
        self.loads.get(filter).map_or(0, Load::ids)
    }

    /// The share of bits that are set in one constituent filter.
    pub fn fill(&self, filter: usize) -> f64 {
        let ones: u64 = self.stack.words(filter).map(|word| u64::from(word.count_ones())).sum();
        ones as f64 / self.settings.bits as f64
    }

    /// The words of one constituent filter; bit `p` of the filter is bit `p % 64` of word `p / 64`.
    pub fn words(&self, filter: usize) -> impl Iterator<Item = u64> + '_ {
        self.stack.words(filter)
    }

    /// The false-positive rate that a formula gives for the filter as it stands.
    pub fn expected_fpr(&self, estimate: Estimate) -> f64 {
        estimate.evaluate(self)
    }

    pub(super) fn loads(&self) -> &VecDeque<Load> {
        &self.loads
    }

    pub(super) fn append_empty(&mut self, filters: usize) -> Result<(), PaperError> {
        self.stack.append_empty(filters)?;
        self.loads.extend(std::iter::repeat_n(Load::default(), filters));
        self.settings.filters = self.filters();
        Ok(())
    }

    pub(super) fn drop_oldest(&mut self) {
        self.stack.drop_oldest();
        self.loads.pop_back();
        self.settings.filters = self.filters();
    }

    pub(super) fn set_period(&mut self, period: Duration) {
        self.settings.period = period;
    }

    /// The generation that starts now is written into the two newest filters.
    fn open_generation(&mut self) {
        let generation = Some(self.generation);
        if let Some(future) = self.loads.get_mut(0) {
            future.as_future.generation = generation;
        }
        if let Some(present) = self.loads.get_mut(1) {
            present.as_present.generation = generation;
        }
    }
}

impl std::fmt::Debug for PaperFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PaperFilter")
            .field("settings", &self.settings)
            .field("next_refresh", &self.next_refresh)
            .finish_non_exhaustive()
    }
}

fn duration_from_nanos(nanos: u128) -> Duration {
    const NANOS: u128 = 1_000_000_000;
    match u64::try_from(nanos / NANOS) {
        Ok(seconds) => Duration::new(seconds, (nanos % NANOS) as u32),
        Err(_) => Duration::MAX,
    }
}
