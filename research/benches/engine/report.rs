//! Measurements as medians with quartiles, and the load of the machine.

use std::time::Duration;

/// Median and quartiles of measurements.
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

pub fn spread(values: impl IntoIterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let last = values.len().saturating_sub(1);
        values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
    };
    Spread { median: at(0.5), low: at(0.25), high: at(0.75) }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.median >= 100.0 { 0 } else { 2 };
        let Self { median, low, high } = self;
        write!(out, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

/// A quantile of sorted latencies, in milliseconds.
pub fn quantile(sorted: &[Duration], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3
}

/// Load average and pressure of the machine.
pub fn load() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let average = read("/proc/loadavg").split_whitespace().next().unwrap_or("?").to_string();
    let pressure = |path| {
        let text = read(path);
        text.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).unwrap_or("?").to_string()
    };
    let (cpu, io) = (pressure("/proc/pressure/cpu"), pressure("/proc/pressure/io"));
    format!("load {average}, CPU pressure {cpu} %, disk pressure {io} %")
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
