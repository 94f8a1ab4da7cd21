//! A log of finished trials on disk, so that a sweep can be interrupted and resumed.
//!
//! The first line has version, seed and sample sizes. Each trial has one line per result and a last line with
//! the rest and a checksum.
//!
//! Invariants: a trial is read back bit by bit or not at all. A half-written trial is dropped and run again.
//! A log of another seed, sample size or version is rejected.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::estimate::{Estimate, PositivePairs};
use super::slice::{Class, PairCounts};
use super::trial::{ClockVariant, SampleSizes, Setup, Trial, Verdict};

/// Increase this when the same seed gives other trials or the format changes.
const VERSION: u32 = 1;

/// The log file.
pub(crate) struct TrialLog {
    file: File,
}

/// A trial in the log: the name of its setup, and the rest.
pub(crate) struct LoggedTrials {
    name: String,
    runs: u32,
    events: [u64; 3],
    sampled: usize,
    verdicts: Vec<Verdict>,
}

impl LoggedTrials {
    /// The trial, if it belongs to this setup, number of runs and these clocks.
    pub(crate) fn of(&self, setup: Setup, runs: u32, kinds: &[ClockVariant]) -> Option<Trial> {
        let LoggedTrials { name, runs: found, events, sampled, verdicts } = self;
        let same = *name == setup.name() && *found == runs;
        let same = same && verdicts.iter().map(|verdict| &verdict.kind).eq(kinds);
        let (events, sampled) = (*events, *sampled);
        same.then(|| Trial { setup, runs, events, sampled, verdicts: verdicts.clone() })
    }
}

impl TrialLog {
    /// Opens or creates the log at this path; returns it with its trials.
    pub(crate) fn open(path: &Path, seed: u64, effort: SampleSizes) -> Result<(Self, Vec<LoggedTrials>)> {
        let name = || path.display();
        let SampleSizes { sampled, estimated } = effort;
        let header = format!(
            "bloom-clock-sweep version {VERSION} seed {seed} sampled {sampled} estimated {estimated}\n"
        );
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.with_context(|| format!("cannot open {}", name()))?;
        // Two writers would corrupt the log. The lock is released with the file.
        file.try_lock().with_context(|| format!("{} is in use by another run", name()))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", name()))?;
        if !header.as_bytes().starts_with(&bytes) && !bytes.starts_with(header.as_bytes()) {
            let found = String::from_utf8_lossy(&bytes);
            bail!(
                "{} is of another sweep ({:?}, not {:?}): remove it to start again, or choose another directory",
                name(),
                found.lines().next().unwrap_or_default().chars().take(80).collect::<String>(),
                header.trim_end()
            );
        }
        let rest = bytes.strip_prefix(header.as_bytes());
        let (found, length) = rest.map_or((Vec::new(), 0), read);
        let keep = rest.map_or(0, |_| header.len() + length) as u64;
        let repaired = (|| {
            file.set_len(keep)?;
            file.seek(SeekFrom::Start(keep))?;
            if keep == 0 {
                file.write_all(header.as_bytes())?;
            }
            file.sync_all()
        })();
        repaired.with_context(|| format!("cannot write {}", name()))?;
        Ok((Self { file }, found))
    }

    /// Appends a trial durably.
    pub(crate) fn add(&mut self, trial: &Trial) -> Result<()> {
        let written = self.file.write_all(text(trial).as_bytes()).and_then(|()| self.file.sync_data());
        written.context("cannot write the log of the sweep")
    }
}

fn text(trial: &Trial) -> String {
    let mut text = String::new();
    for Verdict { kind, tally, estimate } in &trial.verdicts {
        let ClockVariant { by_event, counters, hashes } = kind;
        let PairCounts { classes, backward, backward_false, equal } = tally;
        let _ = write!(
            text,
            "verdict {} {counters} {hashes} {backward} {backward_false} {equal}",
            u8::from(*by_event)
        );
        for Class { pairs, causes, false_positives } in classes {
            let _ = write!(text, " {pairs} {causes} {false_positives}");
        }
        if let Some(Estimate { pairs, classes, false_sum }) = estimate {
            let _ = write!(text, " {pairs} {}", false_sum.to_bits());
            for PositivePairs { pairs, causes } in classes {
                let _ = write!(text, " {pairs} {causes}");
            }
        }
        text.push('\n');
    }
    let [internal, sent, received] = trial.events;
    let sum = checksum(text.as_bytes());
    let _ = writeln!(
        text,
        "trial {} {} {internal} {sent} {received} {} {} {sum}",
        trial.setup.name(),
        trial.runs,
        trial.sampled,
        trial.verdicts.len()
    );
    text
}

/// The complete trials from the start of the log, and their length in bytes.
fn read(bytes: &[u8]) -> (Vec<LoggedTrials>, usize) {
    let (mut found, mut length) = (Vec::new(), 0);
    let mut verdicts = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let began = at;
        at += line.len();
        let Some(line) = std::str::from_utf8(line).ok().and_then(|line| line.strip_suffix('\n')) else {
            break;
        };
        if let Some(verdict) = line.strip_prefix("verdict ") {
            let Some(verdict) = read_verdict(verdict) else { break };
            verdicts.push(verdict);
        } else {
            let sum = checksum(&bytes[length..began]);
            let Some(trial) = read_trial(line, std::mem::take(&mut verdicts), sum) else { break };
            found.push(trial);
            length = at;
        }
    }
    (found, length)
}

fn read_trial(line: &str, verdicts: Vec<Verdict>, sum: u64) -> Option<LoggedTrials> {
    let mut words = line.strip_prefix("trial ")?.split(' ');
    let name = words.next()?.to_owned();
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let &[runs, internal, sent, received, sampled, count, found] = numbers.as_slice() else { return None };
    if found != sum || count != verdicts.len() as u64 {
        return None;
    }
    let events = [internal, sent, received];
    Some(LoggedTrials {
        name,
        runs: runs.try_into().ok()?,
        events,
        sampled: sampled.try_into().ok()?,
        verdicts,
    })
}

fn read_verdict(line: &str) -> Option<Verdict> {
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let mut numbers = numbers.into_iter();
    let kind = ClockVariant {
        by_event: numbers.next()? == 1,
        counters: numbers.next()?.try_into().ok()?,
        hashes: numbers.next()?.try_into().ok()?,
    };
    let mut tally = PairCounts {
        backward: numbers.next()?,
        backward_false: numbers.next()?,
        equal: numbers.next()?,
        ..PairCounts::default()
    };
    for class in &mut tally.classes {
        *class = Class { pairs: numbers.next()?, causes: numbers.next()?, false_positives: numbers.next()? };
    }
    let mut estimate = None;
    if let Some(pairs) = numbers.next() {
        let mut all = Estimate { pairs, false_sum: f64::from_bits(numbers.next()?), ..Estimate::default() };
        for class in &mut all.classes {
            *class = PositivePairs { pairs: numbers.next()?, causes: numbers.next()? };
        }
        estimate = Some(all);
    }
    numbers.next().is_none().then_some(Verdict { kind, tally, estimate })
}

/// FNV-1a, which detects torn writes, not forgery.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
