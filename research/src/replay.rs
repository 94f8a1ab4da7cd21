//! Replays the run of Fig. 13: the bursts that the prototype recorded, a controller that drifts a little each
//! second, and the refreshes in between.
//!
//! The source is the authors' CSV `dynamicResizing2015-05-12:18:27:39` (github.com/rajath26/FBFPrototype).
//! Its time stamps matter: the resizing thread sleeps one second *after* its work, so its 22nd wake-up comes
//! after the burst at 22.05 s. With whole seconds the run cannot be reproduced.

use std::time::Duration;

use crate::paper_filter::{Check, Estimate, PaperFilter, Resizer};
use anyhow::Result;
use forgetful_filter::{Fingerprint, Key};

use crate::measure::inserted;
use crate::schedule::basic;

/// Milliseconds at which a burst of 50 ids starts.
pub(crate) const BURSTS_MS: [u64; 20] = [
    0, 3008, 6016, 8025, 11_032, 14_037, 16_042, 19_049, 22_052, 24_060, 27_064, 30_069, 32_077, 35_085,
    38_092, 40_095, 43_100, 46_104, 48_108, 51_112,
];

const BATCH: u64 = 50;

/// One second of sleep plus the time of the work, from the recorded steps.
const CONTROL_EVERY: Duration = Duration::from_micros(1_002_600);

/// The filter of Fig. 13 at one instant.
pub(crate) struct Replay {
    key: Key,
    resizer: Resizer,
    pub(crate) filter: PaperFilter,
    next_burst: usize,
    next_control: u32,
    log: Vec<(Duration, Fingerprint)>,
}

/// The CSV row of the prototype at the start of a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) time: Duration,
    pub(crate) equation3: f64,
    pub(crate) period: Duration,
    pub(crate) filters: usize,
}

enum Event {
    Burst,
    Control,
}

impl Replay {
    /// 3 filters of 6250 bits and a period of 7 s.
    pub(crate) fn new(key: Key, resizer: Resizer) -> Result<Self> {
        let filter = PaperFilter::new(basic(6250, 7))?;
        Ok(Self { key, resizer, filter, next_burst: 0, next_control: 0, log: Vec::new() })
    }

    /// Advances to `now`; returns the samples of the bursts on the way.
    pub(crate) fn play_until(&mut self, now: Duration) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        while let Some((time, event)) = self.next_event().filter(|(time, _)| *time <= now) {
            self.filter.advance(time);
            match event {
                Event::Burst => {
                    samples.push(self.sample(time));
                    self.burst(time);
                }
                Event::Control => {
                    self.resizer.step(&mut self.filter)?;
                    self.next_control += 1;
                }
            }
        }
        self.filter.advance(now);
        Ok(samples)
    }

    /// The number of ids inserted less than `age` ago, and how many of them are not found.
    pub(crate) fn lost(&self, now: Duration, age: Duration) -> (usize, usize) {
        let live = self.log.iter().filter(|(time, _)| now.saturating_sub(*time) < age);
        let (mut total, mut lost) = (0, 0);
        for (_, id) in live {
            total += 1;
            lost += usize::from(!self.filter.contains(*id, Check::Text));
        }
        (total, lost)
    }

    pub(crate) fn sample(&self, time: Duration) -> Sample {
        Sample {
            time,
            equation3: self.filter.expected_fpr(Estimate::Equation3),
            period: self.filter.settings().period,
            filters: self.filter.filters(),
        }
    }

    fn next_event(&self) -> Option<(Duration, Event)> {
        let control = CONTROL_EVERY * self.next_control;
        let burst = BURSTS_MS.get(self.next_burst).map(|&ms| Duration::from_millis(ms));
        match burst {
            Some(burst) if burst <= control => Some((burst, Event::Burst)),
            _ => Some((control, Event::Control)),
        }
    }

    fn burst(&mut self, time: Duration) {
        let first = self.next_burst as u64 * BATCH;
        for number in first..first + BATCH {
            let id = inserted(&self.key, number);
            self.filter.insert(id);
            self.log.push((time, id));
        }
        self.next_burst += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::key;
    use crate::paper_filter::{Settings, Thresholds};

    /// The prototype's rows at the start of each burst: Eq. (3), period in seconds, filters.
    const AUTHORS: [(f64, u64, usize); 20] = [
        (0.0, 7, 3),
        (9.26862e-8, 11, 3),
        (2.6864e-6, 11, 3),
        (1.84896e-5, 11, 3),
        (1.85833e-5, 11, 3),
        (2.11793e-5, 11, 3),
        (3.69864e-5, 11, 3),
        (6.13862e-8, 10, 6),
        (2.62704e-7, 13, 4),
        (3.0706e-6, 13, 4),
        (1.92439e-5, 13, 4),
        (1.4468e-6, 12, 8),
        (1.73208e-6, 12, 8),
        (4.70553e-6, 12, 8),
        (2.11652e-5, 12, 8),
        (7.43738e-5, 12, 8),
        (5.72209e-6, 12, 8),
        (6.43747e-6, 12, 8),
        (1.01082e-5, 12, 8),
        (2.76068e-5, 12, 8),
    ];

    #[test]
    fn every_row_of_the_authors_run_is_reproduced() {
        let resizer = Resizer::new(1e-3, Thresholds::PROTOTYPE, Settings::FILTERS_MAX).unwrap();
        let samples = Replay::new(key(0), resizer).unwrap().play_until(Duration::from_secs(52)).unwrap();
        assert_eq!(samples.len(), AUTHORS.len());
        for (ours, (equation3, period_s, filters)) in samples.iter().zip(AUTHORS) {
            assert_eq!((ours.period.as_secs(), ours.filters), (period_s, filters), "at {:?}", ours.time);
            assert!((ours.equation3 - equation3).abs() <= 5e-6 * equation3, "{ours:?}, authors {equation3}");
        }
    }

    #[test]
    fn published_thresholds_give_a_different_run() {
        let resizer = Resizer::new(1e-3, Thresholds::PUBLISHED, Settings::FILTERS_MAX).unwrap();
        let samples = Replay::new(key(0), resizer).unwrap().play_until(Duration::from_secs(52)).unwrap();
        assert!(samples.iter().zip(AUTHORS).any(|(ours, authors)| ours.filters != authors.2));
    }
}
