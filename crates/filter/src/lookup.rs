//! Finds the lanes of an interleaved ring that contain an id: the inner loop of every lookup.
//!
//! Portable code needs eight relaxed loads per line, with a compare and a shift each. [`crate::simd`] does
//! the same with a quarter of the instructions. A test below checks that both give the same result.

use crate::cache_line::{CacheLine, CacheLines};
use crate::key::Fingerprint;
use crate::probe::Layout;
#[cfg(vectorised)]
use crate::simd;
use crate::sync::Ordering;

/// Looks up ids of one layout; selects the SIMD code once.
#[derive(Clone, Copy)]
pub(crate) struct LaneLookup {
    layout: Layout,
    #[cfg(vectorised)]
    vectors: Option<simd::Find>,
}

impl LaneLookup {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            #[cfg(vectorised)]
            vectors: simd::find(layout),
        }
    }

    /// Returns those of `lanes` that have all bits of the id.
    #[inline]
    pub(crate) fn lanes_holding(self, lines: &CacheLines, fingerprint: Fingerprint, lanes: u8) -> u8 {
        #[cfg(vectorised)]
        if let Some(vectors) = self.vectors {
            return lanes & vectors.call(lines, fingerprint);
        }
        self.layout.specialised(|layout| narrow(lines, layout, fingerprint, lanes))
    }
}

/// Removes lanes line by line until none is left.
#[inline]
fn narrow(lines: &CacheLines, layout: Layout, fingerprint: Fingerprint, mut lanes: u8) -> u8 {
    for probe in 0..layout.probes {
        if lanes == 0 {
            break;
        }
        let (row, mask) = layout.probe(fingerprint, probe, lines.len());
        lanes &= passing(lines.row(row), mask);
    }
    lanes
}

/// The lanes of a line that have all bits of the mask.
#[inline]
fn passing(line: &CacheLine, mask: u64) -> u8 {
    let mut lanes = 0;
    for (lane, word) in line.0.iter().enumerate() {
        lanes |= u8::from(word.load(Ordering::Relaxed) & mask == mask) << lane;
    }
    lanes
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cache_line::set_bits;
    use crate::key::Key;

    /// Lines whose lanes are filled to different degrees, from empty to nearly full.
    fn lines() -> CacheLines {
        let lines = CacheLines::zeroed(5).expect("a few lines fit");
        let key = Key::new([9; 16]);
        for row in 0..lines.len() {
            for lane in 0..8 {
                for draw in 0..8 * lane {
                    let bit = key.fingerprint(&[row as u8, lane as u8, draw as u8]).get() % 64;
                    set_bits(&lines.row(row).0[lane], 1 << bit);
                }
            }
        }
        lines
    }

    #[test]
    fn vectors_and_words_find_the_same_lanes() {
        let (lines, key) = (lines(), Key::new([1; 16]));
        let mut found = [0; 9];
        for probes in [1, 2, 3, 4, 6] {
            for bits in 1..=9 {
                let layout = Layout { probes, bits };
                for id in 0..if cfg!(miri) { 40_u32 } else { 5_000 } {
                    let fingerprint = key.fingerprint(&id.to_le_bytes());
                    let allowed = (id.wrapping_mul(37) % 256) as u8;
                    let fast = LaneLookup::new(layout).lanes_holding(&lines, fingerprint, allowed);
                    let slow = narrow(&lines, layout, fingerprint, allowed);
                    assert_eq!(fast, slow, "{layout:?}, id {id}");
                    found[fast.count_ones() as usize] += 1;
                }
            }
        }
        assert!(found[0] > 0 && found[1] > 0, "the cases are varied: {found:?}");
    }

    #[test]
    fn a_lane_passes_when_it_has_all_bits() {
        let line = CacheLine::default();
        set_bits(&line.0[2], 0b1011);
        set_bits(&line.0[7], u64::MAX);
        assert_eq!(passing(&line, 0b0011), 1 << 2 | 1 << 7);
        assert_eq!(passing(&line, 0b0100), 1 << 7);
        assert_eq!(passing(&line, 0), 0xff);
    }
}
