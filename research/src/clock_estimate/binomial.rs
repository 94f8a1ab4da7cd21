//! The logarithm of the upper tail of a binomial distribution, also where a sum of its terms would underflow
//! or take too long.
//!
//! A tail is its nearest term times a sum of ratios. The term is Loader's (Fast and accurate computation of
//! binomial probabilities, 2000), which avoids cancellation. The ratios decrease from 1 and are summed one by
//! one; where there are many, the tail is a smooth integral, for which 24 points are enough. The computed
//! tail is the one beyond the mean; the other is its complement.
//!
//! Invariant: the relative error of the logarithm is below 1e-12, for up to 2^48 balls in up to 2^16 urns;
//! tests compare it with exact sums.

/// The number of `balls` that fall into one of `urns`.
pub(super) struct Binomial {
    balls: u64,
    urns: u64,
}

/// Above this mean number of balls per urn the integral is cheaper than the sum.
const MANY: u64 = 1 << 10;

impl Binomial {
    /// `balls` balls, each thrown into one of `urns` urns; `urns` must not be 0.
    pub(super) fn new(balls: u64, urns: u64) -> Self {
        debug_assert!(urns > 0 && balls < 1 << 53, "numbers of balls are exact");
        Self { balls, urns }
    }

    /// The logarithm of the probability that an urn has at least `count` balls.
    pub(super) fn ln_at_least(&self, count: u64) -> f64 {
        let Self { balls, urns } = *self;
        if count == 0 {
            0.0
        } else if count > balls {
            f64::NEG_INFINITY
        } else if urns == 1 {
            0.0
        } else if count * urns > balls {
            // Rounding must not give a probability above 1.
            (self.ln_exactly(count) + self.ln_times_above(count)).min(0.0)
        } else {
            let fewer = count - 1;
            let below = self.ln_exactly(fewer) + self.ln_times_below(fewer);
            (-below.exp()).ln_1p()
        }
    }

    /// The upper tail divided by its nearest term, for a count above the mean.
    fn ln_times_above(&self, count: u64) -> f64 {
        if self.is_many() { self.integral_above(count).ln() } else { self.ln_sum_above(count) }
    }

    /// The lower tail divided by its nearest term, for a count below the mean.
    fn ln_times_below(&self, count: u64) -> f64 {
        if self.is_many() { self.integral_below(count).ln() } else { self.ln_sum_below(count) }
    }

    fn is_many(&self) -> bool {
        self.balls / self.urns >= MANY
    }

    fn ln_sum_above(&self, count: u64) -> f64 {
        let (others, other_urns) = (self.balls - count, (self.urns - 1) as f64);
        ln_sum(|step| (others - step) as f64 / ((count + step + 1) as f64 * other_urns), others)
    }

    fn ln_sum_below(&self, count: u64) -> f64 {
        let (others, other_urns) = (self.balls - count, (self.urns - 1) as f64);
        ln_sum(|step| (count - step) as f64 * other_urns / (others + step + 1) as f64, count)
    }

    fn integral_above(&self, count: u64) -> Integral {
        let (others, other_urns) = (self.balls - count, self.urns - 1);
        let slope = ((count - 1) * other_urns) as f64 - others as f64;
        Integral {
            falling: (count - 1) as f64,
            rising: others as f64,
            pace: 1.0 / other_urns as f64,
            slope: slope / other_urns as f64,
        }
    }

    fn integral_below(&self, count: u64) -> Integral {
        Integral {
            falling: (self.balls - count - 1) as f64,
            rising: count as f64,
            pace: (self.urns - 1) as f64,
            slope: (self.balls - 1 - count * self.urns) as f64,
        }
    }

    /// The logarithm of the probability of exactly this count, after Loader.
    fn ln_exactly(&self, count: u64) -> f64 {
        let (balls, urns) = (self.balls as f64, self.urns as f64);
        let others = (self.balls - count) as f64;
        if count == 0 {
            return balls * (-1.0 / urns).ln_1p();
        }
        if others == 0.0 {
            return -balls * urns.ln();
        }
        // By how much this is more than the mean: exact up to the division.
        let more = ((count * self.urns) as f64 - balls) / urns;
        let count = count as f64;
        let mean = balls / urns;
        let spread = balls / (std::f64::consts::TAU * count * others);
        stirling(balls)
            - stirling(count)
            - stirling(others)
            - deviance(count, mean, more)
            - deviance(others, mean * (urns - 1.0), -more)
            + spread.ln() / 2.0
    }
}

/// The logarithm of 1 + r(0) + r(0) r(1) + ..., with `steps` ratios that fall from at most 1.
fn ln_sum(ratio: impl Fn(u64) -> f64, steps: u64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for step in 0..steps {
        term *= ratio(step);
        sum += term;
        if term < sum * 1e-19 {
            break;
        }
    }
    f64::ln(sum)
}

/// (falling + 1) times the integral of (1 - u)^falling (1 + pace u)^rising for u from 0 to 1: the tail over
/// its nearest term. It is the incomplete beta function with its first factor taken out.
struct Integral {
    falling: f64,
    rising: f64,
    pace: f64,
    /// How fast the logarithm of the integrand falls at 0: falling - pace rising.
    slope: f64,
}

impl Integral {
    fn ln(&self) -> f64 {
        // Where the integrand has fallen by e^-48, at the least e^-38, nothing is left.
        const DEPTH: f64 = 48.0;
        let bend = self.falling + self.rising * self.pace * self.pace;
        let end = 2.0 * DEPTH / (self.slope + (self.slope * self.slope + 2.0 * DEPTH * bend).sqrt());
        let end = end.min(1.0);
        let value = |at: f64| {
            let curve = self.falling * ln_1p_less(-at) + self.rising * ln_1p_less(self.pace * at);
            (curve - self.slope * at).exp()
        };
        let half = end / 2.0;
        let at =
            |(node, weight): &(f64, f64)| weight * (value(half - half * node) + value(half + half * node));
        (GAUSS.iter().map(at).sum::<f64>() * half * (self.falling + 1.0)).ln()
    }
}

/// ln(1 + x) - x without cancellation.
fn ln_1p_less(x: f64) -> f64 {
    if x.abs() > 0.3 {
        return x.ln_1p() - x;
    }
    // ln(1 + x) is 2 artanh(s); its first term and x leave -x s.
    let s = x / (2.0 + x);
    let square = s * s;
    let series = (1..=10).rev().fold(0.0, |sum, at| (sum + 1.0 / f64::from(2 * at + 1)) * square);
    s * (2.0 * series - x)
}

/// value ln(value / mean) - more, where the value is the mean and `more`.
fn deviance(value: f64, mean: f64, more: f64) -> f64 {
    let relative = more / mean;
    if relative.abs() > 0.3 {
        return value * (value / mean).ln() - more;
    }
    // The value is mean (1 + r): mean ((1 + r) ln(1 + r) - r), whose first terms cancel.
    value * ln_1p_less(relative) + more * relative
}

/// The error of Stirling's formula for ln n!.
fn stirling(number: f64) -> f64 {
    if let Some(exact) = STIRLING.get(number as usize) {
        return *exact;
    }
    let square = number * number;
    let rest = 1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - rest / square) / square) / number
}

/// ln n! - (n + 1/2) ln n + n - ln(2 pi)/2 for n from 0 (where it is not needed) to 15. Computed with 60
/// digits.
const STIRLING: [f64; 16] = [
    0.0,
    0.08106146679532726,
    0.0413406959554093,
    0.02767792568499834,
    0.020790672103765093,
    0.016644691189821193,
    0.013876128823070748,
    0.01189670994589177,
    0.010411265261972096,
    0.009255462182712733,
    0.00833056343336287,
    0.007573675487951841,
    0.00694284010720953,
    0.006408994188004207,
    0.0059513701127588475,
    0.005554733551962801,
];

/// The points and weights of Gauss and Legendre for 24 points between -1 and 1: those above 0. Computed with
/// 60 digits.
const GAUSS: [(f64, f64); 12] = [
    (0.9951872199970213, 0.0123412297999872),
    (0.9747285559713095, 0.028531388628933663),
    (0.9382745520027328, 0.04427743881741981),
    (0.8864155270044011, 0.05929858491543678),
    (0.820001985973903, 0.0733464814110803),
    (0.7401241915785544, 0.08619016153195327),
    (0.6480936519369755, 0.09761865210411388),
    (0.5454214713888396, 0.10744427011596563),
    (0.4337935076260451, 0.1155056680537256),
    (0.3150426796961634, 0.12167047292780339),
    (0.1911188674736163, 0.1258374563468283),
    (0.06405689286260563, 0.12793819534675216),
];

#[cfg(test)]
#[path = "binomial_test.rs"]
mod tests;
