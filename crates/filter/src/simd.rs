//! SIMD loads of atomic words, and the request for huge pages.
//!
//! This is the only `unsafe` code of the crate. Both parts are here because measurements show that they
//! matter (`docs/performance.md`). Both have a safe alternative, which other targets, Miri and loom use.
//!
//! *SIMD* (x86-64 with AVX2 and BMI2, detected at run time). One line covers eight generations. Eight relaxed
//! loads with a compare and a shift each are about fifty instructions, which the compiler must not merge
//! because the loads are atomic; vectors need a dozen. Fewer instructions also let the processor run further
//! ahead of cache misses. The loads are in assembly because a plain vector load of words that other threads
//! change would be a data race; assembly has the semantics of its instructions, which are eight relaxed
//! loads.
//!
//! *Huge pages* (Linux). The words of an id are anywhere in a filter, so a lookup in a large filter misses
//! the TLB as well as the caches. Pages of 2 MiB avoid most TLB misses.
#![allow(unsafe_code, reason = "see above")]

#[cfg(vectorised)]
pub(crate) use vectors::{Find, find};

/// Advises huge pages for a large allocation. The kernel may ignore the advice.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub(crate) fn advise_huge_pages<T>(memory: &mut [T]) {
    use rustix::mm::{Advice, madvise};

    const SMALL_PAGE: usize = 4 << 10;
    const HUGE_PAGE: usize = 2 << 20;
    let length = size_of_val(memory);
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(SMALL_PAGE);
    if length < HUGE_PAGE + skipped {
        return;
    }
    let whole_pages = (length - skipped) / SMALL_PAGE * SMALL_PAGE;
    // SAFETY: the range lies within `memory`, which is borrowed exclusively, and the advice does not change
    // the contents.
    let _taken = unsafe { madvise(start.add(skipped).cast(), whole_pages, Advice::LinuxHugepage) };
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(crate) fn advise_huge_pages<T>(_memory: &mut [T]) {}

#[cfg(vectorised)]
mod vectors {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
        _mm256_movemask_pd, _mm256_or_si256, _mm256_permute4x64_epi64, _mm256_set_epi64x, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_shuffle_epi32, _mm256_sllv_epi64, _mm256_srlv_epi64,
    };

    use crate::cache_line::{CacheLine, CacheLines};
    use crate::key::Fingerprint;
    use crate::probe::Layout;

    /// One of the functions below. [`find`] creates it only if the processor has the required features.
    #[derive(Clone, Copy)]
    pub(crate) struct Find(unsafe fn(&CacheLines, Fingerprint) -> u8);

    impl Find {
        #[inline]
        pub(crate) fn call(self, lines: &CacheLines, fingerprint: Fingerprint) -> u8 {
            // SAFETY: the function requires AVX2 and BMI2, and `find` has checked for both.
            unsafe { (self.0)(lines, fingerprint) }
        }
    }

    /// The function for a layout. There is one for each layout that the sizing selects.
    pub(crate) fn find(layout: Layout) -> Option<Find> {
        if !(std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2")) {
            return None;
        }
        macro_rules! function_for {
            ($($probes:literal: $($bits:literal)+;)+) => {
                match (layout.probes, layout.bits) {
                    $($(($probes, $bits) => Some(Find(lanes_holding::<$probes, $bits>)),)+)+
                    _ => None,
                }
            };
        }
        function_for! {
            2: 2 3 4 5 6 7 8;
            3: 2 3 4 5 6 7 8;
            4: 2 3 4 5 6 7 8;
            6: 2 3 4 5 6 7 8;
        }
    }

    /// Reads all lines without branches: a mispredicted branch costs more than a load, and loads that miss
    /// the cache run in parallel.
    #[target_feature(enable = "avx2,bmi2")]
    fn lanes_holding<const PROBES: u32, const BITS: u32>(lines: &CacheLines, fingerprint: Fingerprint) -> u8 {
        let layout = Layout { probes: PROBES, bits: BITS };
        let none = _mm256_setzero_si256();
        let mut missing = (none, none);
        for probe in 0..PROBES {
            let (row, fraction) = layout.place(fingerprint, probe, lines.len());
            let (low, high) = load(lines.row(row));
            let mask = mask::<BITS>(fraction);
            missing.0 = _mm256_or_si256(missing.0, _mm256_andnot_si256(low, mask));
            missing.1 = _mm256_or_si256(missing.1, _mm256_andnot_si256(high, mask));
        }
        let complete = |missing| _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(missing, none)));
        (complete(missing.0) | complete(missing.1) << 4) as u8
    }

    /// [`Layout::mask`] in all four words of a vector: converts four six-bit fields at a time, then combines
    /// the words.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn mask<const BITS: u32>(fraction: u64) -> __m256i {
        let fraction = _mm256_set1_epi64x(fraction.cast_signed());
        let bits = |first: u32| {
            // Field i starts 6 (i + 1) bits from the top. Fields beyond the last one repeat it.
            let field = |i: u32| i64::from(58 - 6 * (first + i).min(BITS - 1));
            let shifts = _mm256_set_epi64x(field(3), field(2), field(1), field(0));
            let positions = _mm256_and_si256(_mm256_srlv_epi64(fraction, shifts), _mm256_set1_epi64x(63));
            _mm256_sllv_epi64(_mm256_set1_epi64x(1), positions)
        };
        let words = if BITS > 4 { _mm256_or_si256(bits(0), bits(4)) } else { bits(0) };
        const SWAP_HALVES: i32 = 0b01_00_11_10;
        let pairs = _mm256_or_si256(words, _mm256_permute4x64_epi64::<SWAP_HALVES>(words));
        _mm256_or_si256(pairs, _mm256_shuffle_epi32::<SWAP_HALVES>(pairs))
    }

    /// The eight words of a line: eight relaxed atomic loads in unspecified order, as two instructions.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn load(line: &CacheLine) -> (__m256i, __m256i) {
        let (low, high);
        // SAFETY: a line is 64 bytes, aligned to 64, and borrowed; the instructions only read it. Aligned
        // words of eight bytes are loaded atomically, so the result is that of eight relaxed loads.
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
