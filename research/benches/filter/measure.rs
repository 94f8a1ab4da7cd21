//! Times two operations on a machine with other load.
//!
//! The contenders alternate in short rounds, so that noise affects both. The result is the ratio of each
//! round, as its median and quartiles. Time is CPU time of the measuring thread.

use std::hint::black_box;

use crate::machine::{quartiles, thread_cpu_time};

/// A numbered id of sixteen bytes, the size of a UUID.
#[inline]
pub fn id(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

/// Nanoseconds per item of `operation`.
pub fn time<I, T>(items: impl ExactSizeIterator<Item = I>, mut operation: impl FnMut(I) -> T) -> f64 {
    let (start, count) = (thread_cpu_time(), items.len());
    for item in items {
        black_box(operation(item));
    }
    (thread_cpu_time() - start).as_nanos() as f64 / count as f64
}

/// The medians of the costs, and the quartiles of their ratio.
pub struct Sample {
    pub ours: f64,
    pub theirs: f64,
    pub ratio: [f64; 3],
}

/// Runs both alternately; each call returns a cost. The first round is warm-up.
pub fn compare(
    rounds: usize,
    mut ours: impl FnMut(usize) -> f64,
    mut theirs: impl FnMut(usize) -> f64,
) -> Sample {
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        // The order alternates, so that neither always runs with the other's caches.
        let pair = if round % 2 == 0 {
            let a = ours(round);
            (a, theirs(round))
        } else {
            let b = theirs(round);
            (ours(round), b)
        };
        if round > 0 {
            pairs.push(pair);
        }
    }
    Sample {
        ours: quartiles(pairs.iter().map(|(ours, _)| *ours))[1],
        theirs: quartiles(pairs.iter().map(|(_, theirs)| *theirs))[1],
        ratio: quartiles(pairs.iter().map(|(ours, theirs)| ours / theirs)),
    }
}
