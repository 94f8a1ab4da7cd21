//! A slice: the ids of one dated generation, in words that no other generation shares.
//!
//! The time of an id selects its generation. So words are not interleaved, and the lines of old generations
//! stay out of the cache.

use crate::approx_count::ApproxCount;
use crate::cache_line::{CacheLines, LANES, OutOfMemory, set_bits};
use crate::key::Fingerprint;
use crate::probe::Layout;
use crate::sizing::{self, FillLimit};
use crate::sync::{AtomicU64, Ordering};

pub(crate) struct Slice {
    pub(crate) layout: Layout,
    /// Ids that fit within the slice's share of the target.
    pub(crate) ids_max: u64,
    pub(crate) lines: CacheLines,
    pub(crate) count: ApproxCount,
    /// Number of ids at which an insert reports a full slice.
    pub(crate) alarm: AtomicU64,
}

impl Slice {
    /// An empty slice.
    pub(crate) fn new(lines: usize, fill_limit: FillLimit) -> Result<Self, OutOfMemory> {
        let ids_max = fill_limit.ids_in(lines * LANES).max(1);
        Ok(Self {
            layout: fill_limit.layout,
            ids_max,
            lines: CacheLines::zeroed(lines)?,
            count: ApproxCount::for_ids(ids_max),
            alarm: AtomicU64::new(ids_max),
        })
    }

    /// Inserts an id; returns whether the slice is full.
    #[inline]
    pub(crate) fn insert(&self, fingerprint: Fingerprint) -> bool {
        let new = self.layout.specialised(|layout| {
            (0..layout.probes).fold(false, |new, probe| {
                let (word, mask) = layout.probe(fingerprint, probe, self.words_len());
                set_bits(self.lines.word(word), mask) | new
            })
        });
        new && self.count.add(fingerprint).is_some_and(|count| count >= self.alarm.load(Ordering::Relaxed))
    }

    /// Touches every word that an insert of the id changes.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) -> u64 {
        self.layout.specialised(|layout| {
            (0..layout.probes).fold(0, |all, probe| {
                let (word, _) = layout.probe(fingerprint, probe, self.words_len());
                all | self.lines.word(word).load(Ordering::Relaxed)
            })
        })
    }

    /// The word that a lookup of the id reads first.
    #[inline]
    pub(crate) fn first_word(&self, fingerprint: Fingerprint) -> u64 {
        let (word, _) = self.layout.place(fingerprint, 0, self.words_len());
        self.lines.word(word).load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.layout.specialised(|layout| {
            (0..layout.probes).all(|probe| {
                let (word, mask) = layout.probe(fingerprint, probe, self.words_len());
                self.lines.word(word).load(Ordering::Relaxed) & mask == mask
            })
        })
    }

    /// The false-positive probability, estimated from a sample of the words.
    pub(crate) fn probability(&self) -> f64 {
        sizing::measured(self.words_len(), self.layout, |word| self.lines.word(word).load(Ordering::Relaxed))
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.words_len()).map(|word| self.lines.word(word).load(Ordering::Relaxed))
    }

    #[inline]
    fn words_len(&self) -> usize {
        self.lines.len() * LANES
    }
}
