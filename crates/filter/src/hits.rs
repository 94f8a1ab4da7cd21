//! Which lanes of an interleaved ring hold an id: the inner loop of every lookup.
//!
//! The only `unsafe` of the crate is here, and only on x86-64 with AVX2 (asked for at run time). A line of eight
//! words answers for eight generations; as eight relaxed loads with a compare and a shift each that is some
//! fifty instructions a line, which the compiler may not merge because the loads are atomic. Two vector loads and
//! two vector compares do the same in a dozen; `docs/performance.md` has what that is worth. The loads are
//! written in assembly because a plain vector load of words that other threads change would be a data race.

use crate::key::Fingerprint;
use crate::line::{Line, Lines};
use crate::probe::Layout;
use crate::sync::Ordering;

/// Those of the `lanes` that have all bits of the id.
#[inline]
pub(crate) fn lanes_holding(lines: &Lines, layout: Layout, fingerprint: Fingerprint, lanes: u8) -> u8 {
    #[cfg(vectorised)]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code, reason = "a call that needs a processor feature")]
        // SAFETY: the processor has AVX2, as was just asked.
        return unsafe { avx2::lanes_holding(lines, layout, fingerprint, lanes) };
    }
    narrow(lines, layout, fingerprint, lanes, passing)
}

/// Narrows the lanes down, line by line, until none is left.
#[inline(always)]
fn narrow(
    lines: &Lines,
    layout: Layout,
    fingerprint: Fingerprint,
    mut lanes: u8,
    passing: impl Fn(&Line, u64) -> u8,
) -> u8 {
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
fn passing(line: &Line, mask: u64) -> u8 {
    let mut lanes = 0;
    for (lane, word) in line.0.iter().enumerate() {
        lanes |= u8::from(word.load(Ordering::Relaxed) & mask == mask) << lane;
    }
    lanes
}

#[cfg(vectorised)]
mod avx2 {
    #![allow(unsafe_code, reason = "vector loads of atomic words, see the head of the file")]

    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_movemask_pd,
        _mm256_set1_epi64x,
    };

    use super::{Fingerprint, Layout, Line, Lines};

    #[target_feature(enable = "avx2")]
    pub(super) fn lanes_holding(lines: &Lines, layout: Layout, fingerprint: Fingerprint, lanes: u8) -> u8 {
        (0..layout.probes).fold(lanes, |lanes, probe| {
            let (row, mask) = layout.probe(fingerprint, probe, lines.len());
            lanes & passing(lines.row(row), mask)
        })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn passing(line: &Line, mask: u64) -> u8 {
        let (low, high) = load(line);
        let mask = _mm256_set1_epi64x(mask.cast_signed());
        let hits = |words| {
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(words, mask), mask)))
        };
        (hits(low) | hits(high) << 4) as u8
    }

    /// The eight words of a line: eight relaxed atomic loads, in no order, as two instructions.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(line: &Line) -> (__m256i, __m256i) {
        let (low, high);
        // SAFETY: a line is 64 bytes, aligned to 64, and alive while it is borrowed; the instructions only read it.
        // Each aligned word of eight bytes arrives whole, so this is what eight relaxed loads would give.
        unsafe {
            asm!(
                "vmovdqa {low}, ymmword ptr [{line}]",
                "vmovdqa {high}, ymmword ptr [{line} + 32]",
                line = in(reg) line,
                low = out(ymm_reg) low,
                high = out(ymm_reg) high,
                options(nostack, preserves_flags, readonly),
            );
        }
        (low, high)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::line::{Access, Exclusive};

    /// Lines with every lane filled differently, from nothing to nearly everything.
    fn lines() -> Lines {
        let lines = Lines::zeroed(5).expect("a few lines fit");
        let key = Key::new([9; 16]);
        for row in 0..lines.len() {
            for lane in 0..8 {
                for draw in 0..8 * lane {
                    let bit = key.fingerprint(&[row as u8, lane as u8, draw as u8]).get() % 64;
                    Exclusive::or(&lines.row(row).0[lane], 1 << bit);
                }
            }
        }
        lines
    }

    #[test]
    fn vectors_and_words_find_the_same_lanes() {
        let (lines, key) = (lines(), Key::new([1; 16]));
        let mut found = [0; 9];
        for probes in 1..=4 {
            for bits in [1, 3, 6] {
                let layout = Layout { probes, bits };
                for id in 0..if cfg!(miri) { 40_u32 } else { 5_000 } {
                    let fingerprint = key.fingerprint(&id.to_le_bytes());
                    let allowed = (id.wrapping_mul(37) % 256) as u8;
                    let fast = lanes_holding(&lines, layout, fingerprint, allowed);
                    let slow = narrow(&lines, layout, fingerprint, allowed, passing);
                    assert_eq!(fast, slow, "{layout:?}, id {id}");
                    found[fast.count_ones() as usize] += 1;
                }
            }
        }
        assert!(found[0] > 0 && found[1] > 0, "the cases are varied: {found:?}");
    }

    #[test]
    fn a_lane_passes_when_it_has_all_bits() {
        let line = Line::default();
        Exclusive::or(&line.0[2], 0b1011);
        Exclusive::or(&line.0[7], u64::MAX);
        assert_eq!(passing(&line, 0b0011), 1 << 2 | 1 << 7);
        assert_eq!(passing(&line, 0b0100), 1 << 7);
        assert_eq!(passing(&line, 0), 0xff);
    }
}
