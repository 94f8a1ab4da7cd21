//! The probability that a possible cause is a cause: the estimates of Kshemkalyani and Misra (The Bloom clock
//! to characterize causality in distributed systems, 2020), with their names. For events y and z with the
//! counters `By` and `Bz` of m each:
//!
//! ```text
//! pr_p  = product over i of (1 - sum of b(l, sum of Bz, 1/m) over l from 0 to By[i] - 1)
//! b(l, n, p) = C(n, l) p^l (1 - p)^(n - l)
//! pr_fp = (1 - pr_p) pr_p    pr_pf = 1 - pr_p    pr_tp = pr_p^2       pr_tn = 1 - pr_p    as a product
//! pr_fp = (1 - pr_p) step    pr_pf = 1 - pr_p    pr_tp = pr_p step    pr_tn = 1 - step    as a step
//! ```
//!
//! where the step is 1 if the clock reports z as possibly after y, and 0 otherwise.
//!
//! **The estimates are for display; do not base decisions on them.** pr_p assumes that the increments in `Bz`
//! are thrown anew at random, whatever y and z have in common, and equates the probability that `Bz` covers
//! `By` with the probability that y caused z. So it is not calibrated, and an offset common to all counters
//! changes it although it changes no comparison. Discarding causes with a low estimate denies true causes.
//!
//! Invariant: an estimate is a probability, never NaN; it takes microseconds per distinct counter value.

mod binomial;

use bloom_clock::{Causality, Stamp};

use self::binomial::Binomial;

/// The probability of a positive (pr_p): that the counters of z cover those of y, if the increments were
/// thrown anew, each to a random counter. Between generations it is 1 if that of z is later and 0 if it is
/// earlier.
///
/// # Panics
///
/// As [`Stamp::after`].
pub fn precedes(y: &Stamp, z: &Stamp) -> f64 {
    ln_precedes(y, z).exp()
}

/// The natural logarithm of [`precedes`], for probabilities that underflow. Its relative error is below
/// 1e-12.
///
/// # Panics
///
/// As [`Stamp::after`].
pub fn ln_precedes(y: &Stamp, z: &Stamp) -> f64 {
    assert_eq!(y.counters().len(), z.counters().len(), "stamps of clocks with different parameters");
    match z.generation().cmp(&y.generation()) {
        std::cmp::Ordering::Greater => return 0.0,
        std::cmp::Ordering::Less => return f64::NEG_INFINITY,
        std::cmp::Ordering::Equal => {}
    }
    let thrown = Binomial::new(z.sum(), z.counters().len() as u64);
    // Most counters of a clock have the same few values, and the logarithm of a tail takes longer than
    // sorting.
    let mut counters = y.counters().to_vec();
    counters.sort_unstable();
    let equal = counters.chunk_by(|one, other| one == other);
    equal.map(|equal| equal.len() as f64 * thrown.ln_at_least(u64::from(equal[0]))).sum()
}

/// The probability of a false positive (pr_fp).
///
/// # Panics
///
/// As [`Stamp::after`].
pub fn false_positive(y: &Stamp, z: &Stamp, model: CollisionModel) -> f64 {
    CausalityEstimate::of(y, z).false_positive(model)
}

/// The probability that a positive is false (pr_pf); the same in both models.
///
/// # Panics
///
/// As [`Stamp::after`].
pub fn positive_false(y: &Stamp, z: &Stamp) -> f64 {
    CausalityEstimate::of(y, z).positive_false()
}

/// How the estimates use the probability of a positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CollisionModel {
    /// As pr_p: before the stamps are compared.
    Product,
    /// As a step: the result of the comparison is known, 1 or 0.
    Step,
}

/// The estimates for one pair of events, y and z.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CausalityEstimate {
    ln_precedes: f64,
    is_possible: bool,
}

impl CausalityEstimate {
    /// The estimates for "y caused z".
    ///
    /// # Panics
    ///
    /// As [`Stamp::after`].
    pub fn of(y: &Stamp, z: &Stamp) -> Self {
        Self { ln_precedes: ln_precedes(y, z), is_possible: z.after(y) == Causality::Possibly }
    }

    /// The probability of a positive: see [`precedes`].
    pub fn precedes(&self) -> f64 {
        self.ln_precedes.exp()
    }

    /// Whether the clock reports z as possibly after y: the step. Unlike in the paper it is 0 for equal
    /// stamps, because events with equal stamps do not cause each other.
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// The probability of a false positive (pr_fp).
    pub fn false_positive(&self, model: CollisionModel) -> f64 {
        self.positive_false() * self.positive(model)
    }

    /// The probability that a positive is false (pr_pf).
    pub fn positive_false(&self) -> f64 {
        // `1 - pr_p` would lose digits near 1.
        0.0 - self.ln_precedes.exp_m1()
    }

    /// The probability of a true positive (pr_tp).
    pub fn true_positive(&self, model: CollisionModel) -> f64 {
        self.precedes() * self.positive(model)
    }

    /// The probability of a true negative (pr_tn).
    pub fn true_negative(&self, model: CollisionModel) -> f64 {
        match model {
            CollisionModel::Product => self.positive_false(),
            CollisionModel::Step => f64::from(u8::from(!self.is_possible)),
        }
    }

    fn positive(&self, model: CollisionModel) -> f64 {
        match model {
            CollisionModel::Product => self.precedes(),
            CollisionModel::Step => f64::from(u8::from(self.is_possible)),
        }
    }
}
