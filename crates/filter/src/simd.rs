//! What safe Rust cannot say: vector loads of atomic words, and a word to the system about pages.
//!
//! This is the crate's only `unsafe`. Each piece is here because it was measured to matter
//! (`docs/performance.md`), and each has a safe way beside it that is taken everywhere else, under Miri and under
//! loom.
//!
//! *Vectors* (x86-64 with AVX2 and BMI2, asked for at run time). A line of eight words answers for eight generations;
//! as eight relaxed loads with a compare and a shift each that is some fifty instructions, which the compiler may not
//! merge because the loads are atomic. Vectors do it in a dozen. That matters twice over: a lookup in memory that
//! is not cached is as fast as the processor can run ahead of it, and it runs ahead by a number of instructions.
//! The loads are written in assembly because a plain vector load of words that other threads change would be a data
//! race, while assembly means what its instructions do: here, eight relaxed loads.
//!
//! *Huge pages* (Linux). Ids land anywhere in a filter, so in a large one nearly every lookup misses the processor's
//! table of pages as well as its caches. Pages of 2 MiB make that table reach.
#![allow(unsafe_code, reason = "see above")]

#[cfg(vectorised)]
pub(crate) use vectors::{Find, find};

/// Asks for huge pages under a large allocation. It is advice: where it is not taken, nothing changes.
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
    // SAFETY: the range lies within `memory`, which is borrowed exclusively, and this advice does not change what
    // the memory holds.
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

    /// A function below. It exists only where [`find`] saw that the processor has what it needs.
    #[derive(Clone, Copy)]
    pub(crate) struct Find(unsafe fn(&CacheLines, Fingerprint) -> u8);

    impl Find {
        #[inline]
        pub(crate) fn call(self, lines: &CacheLines, fingerprint: Fingerprint) -> u8 {
            // SAFETY: the function is safe on processors with AVX2 and BMI2, and `find` has asked for them.
            unsafe { (self.0)(lines, fingerprint) }
        }
    }

    /// The function for a layout: there is one for each that the sizing chooses.
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

    /// Looks at all lines without a branch between: mispredicting whether a second line is needed would cost more
    /// than loading it, and lines that are not cached are loaded side by side.
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

    /// [`Layout::mask`] in all four words of a vector: four six-bit fields at a time become bits, then the words
    /// are joined.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn mask<const BITS: u32>(fraction: u64) -> __m256i {
        let fraction = _mm256_set1_epi64x(fraction.cast_signed());
        let bits = |first: u32| {
            // Field number i begins 6 (i + 1) bits from the top; beyond the last one it is repeated.
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

    /// The eight words of a line: eight relaxed atomic loads, in no order, as two instructions.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn load(line: &CacheLine) -> (__m256i, __m256i) {
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
