//! Statistics of measured times.

use jeton_testkit::Rng;
/// The normal quantile of a two-sided interval of 90 %.
const Z90: f64 = 1.644_854;

/// Number of bootstrap samples.
const RESAMPLES: usize = 500;

/// A value with its 90 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    pub(crate) median: f64,
    pub(crate) quartiles: (f64, f64),
    pub(crate) p99: f64,
    /// As in the paper.
    pub(crate) mean: Estimate,
}

pub(crate) fn summary(times: &[f64]) -> Summary {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Summary {
        samples: times.len(),
        median: quantile(&sorted, 0.5),
        quartiles: (quantile(&sorted, 0.25), quantile(&sorted, 0.75)),
        p99: quantile(&sorted, 0.99),
        mean: mean(times),
    }
}

/// The mean with its confidence interval.
pub(crate) fn mean(values: &[f64]) -> Estimate {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = t90(values.len()) * (square / count).sqrt();
    Estimate { value: mean, low: mean - half, high: mean + half }
}

/// Student's quantile, which approaches the normal one.
fn t90(count: usize) -> f64 {
    const FEW: [f64; 15] = [
        f64::INFINITY,
        6.314,
        2.920,
        2.353,
        2.132,
        2.015,
        1.943,
        1.895,
        1.860,
        1.833,
        1.812,
        1.796,
        1.782,
        1.771,
        1.761,
    ];
    match FEW.get(count.saturating_sub(1)) {
        Some(quantile) if count > 1 => *quantile,
        Some(_) => 0.0,
        // From here on the error is below 0.01.
        None => Z90 * (1.0 + 1.0 / count as f64),
    }
}

/// The quantile of sorted values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (low, part) = (place.floor() as usize, place.fract());
    sorted[low] + part * (sorted[(low + 1).min(last)] - sorted[low])
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The ratio of two medians. Times of the same turn are resampled together.
pub(crate) fn median_ratio(times: &[f64], of: &[f64]) -> Estimate {
    let turns = times.len().min(of.len());
    let mut rng = Rng::new(turns as u64);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<usize> = (0..turns).map(|_| rng.index(turns)).collect();
            let pick = |values: &[f64]| median(&drawn.iter().map(|turn| values[*turn]).collect::<Vec<_>>());
            pick(times) / pick(of)
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    Estimate {
        value: median(times) / median(of),
        low: quantile(&ratios, 0.05),
        high: quantile(&ratios, 0.95),
    }
}

/// The geometric mean of ratios of rates that were measured side by side.
pub(crate) fn rate_ratio(rates: &[f64], of: &[f64]) -> Estimate {
    let logs: Vec<f64> = rates.iter().zip(of).map(|(rate, of)| (rate / of).ln()).collect();
    let Estimate { value, low, high } = mean(&logs);
    Estimate { value: value.exp(), low: low.exp(), high: high.exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 1.0)), (1.0, 4.0));
        assert_eq!(summary(&[3.0, 1.0, 2.0]).median, 2.0);
    }

    #[test]
    fn times_twice_as_long_have_the_ratio_two() {
        let short: Vec<f64> = (0..200).map(|turn| 10.0 + f64::from(turn % 7)).collect();
        let long: Vec<f64> = short.iter().map(|time| time * 2.0).collect();
        let Estimate { value, low, high } = median_ratio(&long, &short);
        assert!((value - 2.0).abs() < 1e-9 && (low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
        let Estimate { value, low, high } = rate_ratio(&[2.0, 8.0], &[1.0, 4.0]);
        assert!((value - 2.0).abs() < 1e-9 && low <= value && value <= high);
    }

    #[test]
    fn an_interval_narrows_with_more_values() {
        let spread = |count: usize| {
            let values: Vec<f64> = (0..count).map(|value| (value % 10) as f64).collect();
            let Estimate { low, high, .. } = mean(&values);
            high - low
        };
        assert!(spread(10) > spread(100) && spread(100) > spread(1_000));
    }
}
