//! How many ids fit at a given false-positive probability, for words of 64 bits.
//!
//! The usual formula `fill^k` is too low here, because ids are not spread evenly over words and full words
//! pass more masks. The calculation is exact: a word holds a Poisson number of ids, each of which draws
//! `bits` positions with replacement. The probability that a mask passes is the mean of `(set bits /
//! 64)^bits` over that distribution; an id passes if all its words pass.

use std::sync::OnceLock;

use crate::probe::{BITS_MAX, Layout};

/// Bits in a word.
const WORD: usize = 64;

/// A word with more ids counts as full; at the fills used here the mean is near ten. Smaller under Miri,
/// which is slow at arithmetic.
const CROWD_MAX: usize = if cfg!(miri) { 16 } else { 96 };

/// The probability that a mask passes a word that `n` ids occupy, for `n` from 0 to [`CROWD_MAX`].
pub(crate) struct PassTable {
    layout: Layout,
    by_crowd: &'static [f64],
}

/// The table depends on the bits only and takes most of the time of building a filter; each is computed once.
static BY_BITS: [OnceLock<Vec<f64>>; BITS_MAX as usize + 1] =
    [const { OnceLock::new() }; BITS_MAX as usize + 1];

impl PassTable {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, by_crowd: BY_BITS[layout.bits as usize].get_or_init(|| Self::by_crowd(layout.bits)) }
    }

    fn by_crowd(bits: u32) -> Vec<f64> {
        // share[s] = probability that s of the 64 bits are set, after the draws so far.
        let mut share = [0.0; WORD + 1];
        share[0] = 1.0;
        let mut by_crowd = vec![0.0];
        for _ in 0..CROWD_MAX {
            for _ in 0..bits {
                for set in (0..=WORD).rev() {
                    let stays = share[set] * set as f64 / WORD as f64;
                    let grows =
                        if set == 0 { 0.0 } else { share[set - 1] * (WORD - set + 1) as f64 / WORD as f64 };
                    share[set] = stays + grows;
                }
            }
            by_crowd.push(share.iter().enumerate().map(|(set, p)| p * pass(set as u32, bits)).sum::<f64>());
        }
        by_crowd
    }

    /// The false-positive probability of one generation with `ids` ids in `slots` words.
    pub(crate) fn probability(&self, ids: f64, slots: usize) -> f64 {
        let mean = f64::from(self.layout.probes) * ids / slots as f64;
        let mut weight = (-mean).exp();
        let (mut pass, mut covered) = (0.0, 0.0);
        for (crowd, passes) in self.by_crowd.iter().enumerate() {
            pass += weight * passes;
            covered += weight;
            weight *= mean / (crowd + 1) as f64;
        }
        (pass + (1.0 - covered).max(0.0)).min(1.0).powi(self.layout.probes as i32)
    }

    /// Ids per slot at which a generation reaches `probability`.
    fn ids_per_slot(&self, probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, CROWD_MAX as f64);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.probability(middle, 1) > probability { high = middle } else { low = middle }
        }
        low
    }
}

/// The false-positive probability of existing words, from an even sample of them.
pub(crate) fn measured(words: usize, layout: Layout, word: impl Fn(usize) -> u64) -> f64 {
    const SAMPLES_MAX: usize = 2_048;
    let sampled = (0..words).step_by(words.div_ceil(SAMPLES_MAX).max(1));
    let count = sampled.len().max(1) as f64;
    let passing: f64 = sampled.map(|index| pass(word(index).count_ones(), layout.bits)).sum();
    (passing / count).powi(layout.probes as i32)
}

/// The probability that `bits` draws all hit one of the `set` bits of a word.
fn pass(set: u32, bits: u32) -> f64 {
    (f64::from(set) / WORD as f64).powi(bits as i32)
}

/// The share of a target for each of `parts` independent events.
pub(crate) fn share_of(target: f64, parts: u32) -> f64 {
    1.0 - (1.0 - target).powf(1.0 / f64::from(parts))
}

/// A layout and its maximum fill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FillLimit {
    pub(crate) layout: Layout,
    pub(crate) ids_per_slot: f64,
}

impl FillLimit {
    /// The highest fill at which one generation stays within `probability`.
    ///
    /// More probes save memory, fewer save time. At a target of 1e-2 two words per id are enough, down to
    /// 1e-4 three, below that four or more. `docs/performance.md` has the measurements.
    pub(crate) fn for_probability(probability: f64) -> Self {
        let probes = match probability {
            p if p >= 6e-4 => 2,
            p if p >= 5e-6 => 3,
            p if p >= 1e-8 => 4,
            _ => 6,
        };
        Self::with_probes(probes, probability)
    }

    /// The best number of bits for `probes`. Few bits pass too easily, many fill the words. The fill has one
    /// maximum, so the search stops when it decreases.
    fn with_probes(probes: u32, probability: f64) -> Self {
        let of = |bits| {
            let layout = Layout { probes, bits };
            Self { layout, ids_per_slot: PassTable::new(layout).ids_per_slot(probability) }
        };
        let mut best = of(1);
        for next in (2..=BITS_MAX).map(of) {
            if next.ids_per_slot < best.ids_per_slot {
                break;
            }
            best = next;
        }
        best
    }

    /// Slots for `ids` ids.
    pub(crate) fn slots_for(&self, ids: f64) -> usize {
        (ids / self.ids_per_slot).ceil() as usize
    }

    /// Ids that fit into `slots`.
    pub(crate) fn ids_in(&self, slots: usize) -> u64 {
        (slots as f64 * self.ids_per_slot).floor() as u64
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Bits per id of an eight-lane ring: seven lanes are the window, the eighth is overhead.
    fn ring_bits(probes: u32, target: f64) -> f64 {
        64.0 / FillLimit::with_probes(probes, share_of(target, 8)).ids_per_slot * 8.0 / 7.0
    }

    #[test]
    fn ring_needs_the_memory_of_the_exact_calculation() {
        // Computed independently with the same distribution in another language.
        for (probes, target, expected) in [
            (2, 1e-2, 17.90),
            (3, 1e-2, 16.62),
            (2, 1e-3, 26.73),
            (3, 1e-3, 23.45),
            (4, 1e-3, 22.38),
            (3, 1e-4, 31.36),
            (4, 1e-4, 29.16),
            (4, 1e-6, 44.91),
        ] {
            let bits = ring_bits(probes, target);
            assert!((bits - expected).abs() < 0.02, "probes {probes}, target {target}: {bits}");
        }
    }

    #[test]
    fn probability_grows_with_ids_and_reaches_one() {
        let table = PassTable::new(Layout { probes: 3, bits: 4 });
        assert_eq!(table.probability(0.0, 10), 0.0);
        let series: Vec<f64> = (0..200).map(|ids| table.probability(f64::from(ids), 10)).collect();
        assert!(series.windows(2).all(|w| w[0] <= w[1]));
        assert!(table.probability(1e6, 10) > 0.999);
    }
}
