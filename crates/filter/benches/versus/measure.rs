//! Timing two things side by side on a machine that others use too.
//!
//! Contenders take turns in short rounds, so that noise meets them alike, and what is reported is the ratio of each
//! round: its median, and the spread between the quartiles. Time is the processor time of the measuring
//! thread, so that waiting for a core does not count.

use std::hint::black_box;
use std::time::Duration;

/// A numbered id of sixteen bytes, as a UUID has.
#[inline]
pub fn id(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

/// Nanoseconds per operation of `operations` calls.
pub fn time<T>(operations: u64, mut operation: impl FnMut(u64) -> T) -> f64 {
    let start = thread_cpu_time();
    for number in 0..operations {
        black_box(operation(number));
    }
    (thread_cpu_time() - start).as_nanos() as f64 / operations as f64
}

/// Nanoseconds per item of calls with each of the items.
pub fn time_each<I: Copy, T>(items: &[I], mut operation: impl FnMut(I) -> T) -> f64 {
    let start = thread_cpu_time();
    for item in items {
        black_box(operation(*item));
    }
    (thread_cpu_time() - start).as_nanos() as f64 / items.len() as f64
}

/// Processor time of this thread.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What was measured of one comparison.
pub struct Sample {
    pub ours: f64,
    pub theirs: f64,
    pub ratio: f64,
    pub ratio_low: f64,
    pub ratio_high: f64,
}

/// Runs both by turns; each call returns a cost. The first round warms up and does not count.
pub fn compare(
    rounds: usize,
    mut ours: impl FnMut(usize) -> f64,
    mut theirs: impl FnMut(usize) -> f64,
) -> Sample {
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        // Who goes first changes, so that neither always meets the other's cold caches.
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
    let ratios = sorted(pairs.iter().map(|(a, b)| a / b));
    Sample {
        ours: quantile(&sorted(pairs.iter().map(|p| p.0)), 0.5),
        theirs: quantile(&sorted(pairs.iter().map(|p| p.1)), 0.5),
        ratio: quantile(&ratios, 0.5),
        ratio_low: quantile(&ratios, 0.25),
        ratio_high: quantile(&ratios, 0.75),
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], at: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * at).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The system's own words for how busy it is.
pub fn load() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let average = read("/proc/loadavg").split_whitespace().next().unwrap_or("?").to_string();
    let pressure = read("/proc/pressure/cpu");
    let waiting =
        pressure.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).unwrap_or("?").to_string();
    format!("load {average}, processor pressure {waiting} %")
}

/// The machine, for the head of the table.
pub fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(" unknown");
    format!("{} × {}", cpus, model.trim_start_matches([' ', '\t', ':']))
}
