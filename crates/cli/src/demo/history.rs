//! What happened so far, sampled at even steps of demo time: the data of the charts and of the summary.

use std::time::Duration;

use forgetful_filter::{Moment, Status};

/// Samples in a whole demo; more than a wide terminal has columns.
pub const SAMPLES: u32 = 300;

/// Samples that "now" is averaged over.
const NOW: usize = 4;

/// The filter and its load over one step.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The end of the step.
    pub at: Moment,
    /// Ids that arrived in the step, a second.
    pub rate: u64,
    /// The filter at the end of the step.
    pub status: Status,
}

#[derive(Default)]
pub struct History {
    samples: Vec<Sample>,
}

impl History {
    /// Adds a step in which so many ids arrived.
    pub fn add(&mut self, at: Moment, arrived: u64, step: Duration, status: Status) {
        let rate = arrived as f64 / step.as_secs_f64();
        self.samples.push(Sample { at, rate: rate.round() as u64, status });
    }

    /// Ids a second at present.
    pub fn rate(&self) -> u64 {
        let recent = &self.samples[self.samples.len().saturating_sub(NOW)..];
        recent.iter().map(|sample| sample.rate).sum::<u64>() / recent.len().max(1) as u64
    }

    /// Ids a second so long after the beginning.
    pub fn rate_at(&self, time: Duration) -> u64 {
        let after = self.samples.partition_point(|sample| sample.at.since(Moment::ZERO) < time);
        self.samples.get(after).or(self.samples.last()).map_or(0, |sample| sample.rate)
    }

    /// The largest memory so far.
    pub fn peak_bytes(&self) -> usize {
        self.samples.iter().map(|sample| sample.status.bytes).max().unwrap_or(0)
    }

    /// The last sample up to a moment.
    pub fn at(&self, moment: Moment) -> Option<&Sample> {
        let after = self.samples.partition_point(|sample| sample.at <= moment);
        self.samples[..after].last()
    }

    /// A value over the whole demo, in so many columns: the largest of each column, none where nothing was yet.
    pub fn columns(&self, width: u16, value: impl Fn(&Sample) -> u64) -> Vec<Option<u64>> {
        let mut columns = vec![None; usize::from(width)];
        if width == 0 {
            return columns;
        }
        for (index, sample) in self.samples.iter().enumerate() {
            // A sample may be wider than a column: then it fills several.
            let first = index * columns.len() / SAMPLES as usize;
            let end = ((index + 1) * columns.len()).div_ceil(SAMPLES as usize).min(columns.len());
            for column in columns.iter_mut().take(end).skip(first) {
                *column = Some(column.unwrap_or(0).max(value(sample)));
            }
        }
        columns
    }
}
