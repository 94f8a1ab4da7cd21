//! Zipf distribution by rejection-inversion (Hörmann and Derflinger 1996), which needs no table.

/// Draws ranks from 1 to a maximum. The weight of a rank is its power to minus the exponent.
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipf {
    /// The exponent is not 1: its integral is a logarithm.
    pub fn new(ranks: u32, exponent: f64) -> Self {
        let ranks = f64::from(ranks);
        let mut zipf = Self { ranks, exponent, first: 0.0, last: 0.0, shortcut: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the weight, from 1.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        (x.powf(power) - 1.0) / power
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.exponent;
        (y * power + 1.0).max(0.0).powf(1.0 / power)
    }

    /// Draws a rank. `even` returns uniform numbers in [0, 1).
    pub fn rank(&self, mut even: impl FnMut() -> f64) -> u32 {
        loop {
            let y = self.last + even() * (self.first - self.last);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.shortcut || y >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_distribution() {
        let zipf = Zipf::new(1_000, 0.99);
        let mut even = crate::workload::even();
        let draws = 1_000_000;
        let mut counts = vec![0_u32; 1_001];
        for _ in 0..draws {
            counts[zipf.rank(&mut even) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let sum: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for rank in [1_u32, 2, 3, 10, 100, 1_000] {
            let expected = f64::from(draws) * f64::from(rank).powf(-0.99) / sum;
            let found = f64::from(counts[rank as usize]);
            // Five standard deviations of a count.
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {found}, not {expected}");
        }
    }
}
