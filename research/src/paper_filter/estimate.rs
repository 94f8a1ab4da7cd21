//! The false-positive rate of an N-FBF by formula: the paper's Eq. (3), and the exact formula.
//!
//! Eq. (3) multiplies the rates of neighbouring filters as if they were independent. They are not: neighbours
//! share one whole generation *and* the hash functions, so that a probe that hits the shared bits hits both.
//! For `f_j`, the fill by generation `j` alone, the exact rate (union bound, to second order in the rate) is
//!
//! ```text
//! f_0^k  +  sum over j = 1 .. N-1 of (f_j + (1 - f_j) f_(j-1) f_(j+1))^k  +  (1 - (1 - f_N)(1 - f_(N+1)))^k
//! ```
//!
//! The last pair of Eq. (3) is left out: an id that passes it also passes the test of the oldest filter
//! alone.

use super::filter::PaperFilter;

/// A formula for the false-positive rate of a [`PaperFilter`] as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Estimate {
    /// The paper's Eq. (3) from the number of ids inserted: for [`Check::Text`](super::Check::Text), under
    /// the paper's assumption that the constituent filters are independent.
    Equation3,
    /// The exact formula for [`Check::Text`](super::Check::Text), from the number of ids inserted.
    Exact,
    /// The exact formula for [`Check::Text`](super::Check::Text), from the bits that are set in each filter
    /// and in both filters of each pair. It also holds where ids were inserted twice.
    ExactFromFill,
    /// The formula for [`Check::Simple`](super::Check::Simple), from the number of ids inserted.
    Simple,
}

/// The insertions into one constituent filter in its two writable roles.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) as_future: Share,
    pub(super) as_present: Share,
}

/// The ids of one generation in one filter. A filter appended by resizing never took part in any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) generation: Option<u64>,
    pub(super) ids: u64,
}

impl Load {
    pub(super) fn ids(&self) -> u64 {
        self.as_future.ids + self.as_present.ids
    }
}

/// Eq. (1), without its misprint: the false-positive rate of one Bloom filter of `bits` bits and `hashes`
/// hash functions after `ids` insertions, `(1 - e^(-k l / m))^k`.
pub fn bloom_fpr(bits: usize, hashes: usize, ids: u64) -> f64 {
    fill(bits, hashes, ids).powi(hashes as i32)
}

/// Eq. (3) for any numbers of ids, newest filter first: `1 -` the product over the stages of the check of `1
/// -` the rate of the stage. Fewer than three filters are no N-FBF and give 0.
pub fn equation3(bits: usize, hashes: usize, ids_per_filter: &[u64]) -> f64 {
    let rates: Vec<f64> = ids_per_filter.iter().map(|&ids| bloom_fpr(bits, hashes, ids)).collect();
    let [future, rest @ ..] = rates.as_slice() else { return 0.0 };
    let (Some(oldest), true) = (rest.last(), rest.len() >= 2) else { return 0.0 };
    // ln(1 - p) keeps the digits of rates far below 1e-16, where 1 - p would be 1.
    let log_miss: f64 = (-future).ln_1p()
        + rest.windows(2).map(|pair| (-pair[0] * pair[1]).ln_1p()).sum::<f64>()
        + (-oldest).ln_1p();
    -log_miss.exp_m1()
}

impl Estimate {
    pub(super) fn evaluate(self, filter: &PaperFilter) -> f64 {
        match self {
            Self::Equation3 => {
                let ids: Vec<u64> = filter.loads().iter().map(Load::ids).collect();
                equation3(filter.settings().bits, filter.settings().hashes, &ids)
            }
            Self::Exact => exact(filter),
            Self::ExactFromFill => exact_from_fill(filter),
            Self::Simple => simple(filter),
        }
    }
}

fn exact(filter: &PaperFilter) -> f64 {
    let k = filter.settings().hashes as i32;
    let fill_of = |ids| fill(filter.settings().bits, filter.settings().hashes, ids);
    let loads = filter.loads();
    let oldest = loads.len() - 1;
    let pairs = (1..oldest - 1).map(|newer| {
        let (newer, older) = (loads[newer], loads[newer + 1]);
        if newer.as_future.generation.is_some() && newer.as_future.generation == older.as_present.generation {
            let shared = fill_of(newer.as_future.ids);
            let both = fill_of(newer.as_present.ids) * fill_of(older.as_future.ids);
            (shared + (1.0 - shared) * both).powi(k)
        } else {
            (fill_of(newer.ids()) * fill_of(older.ids())).powi(k)
        }
    });
    let alone = [0, oldest].into_iter().map(|filter| fill_of(loads[filter].ids()).powi(k));
    alone.chain(pairs).sum::<f64>().min(1.0)
}

fn exact_from_fill(filter: &PaperFilter) -> f64 {
    let k = filter.settings().hashes as i32;
    let bits = filter.settings().bits as f64;
    let oldest = filter.filters() - 1;
    let pairs = (1..oldest - 1).map(|newer| {
        let both =
            filter.words(newer).zip(filter.words(newer + 1)).map(|(a, b)| u64::from((a & b).count_ones()));
        (both.sum::<u64>() as f64 / bits).powi(k)
    });
    let alone = [0, oldest].into_iter().map(|index| filter.fill(index).powi(k));
    alone.chain(pairs).sum::<f64>().min(1.0)
}

/// The future is left out: its bits are also in the present.
fn simple(filter: &PaperFilter) -> f64 {
    let settings = filter.settings();
    let rates =
        filter.loads().iter().skip(1).map(|load| bloom_fpr(settings.bits, settings.hashes, load.ids()));
    rates.sum::<f64>().min(1.0)
}

/// The expected share of set bits after `ids` insertions.
fn fill(bits: usize, hashes: usize, ids: u64) -> f64 {
    -(-(hashes as f64) * ids as f64 / bits as f64).exp_m1()
}
