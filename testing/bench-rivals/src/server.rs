//! Measures a server process: processor time and memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Processor time of a process and its descendants in seconds, with those that ended.
pub fn processor_seconds(process: u32) -> f64 {
    let mut family = vec![process];
    let mut ticks = 0;
    let all: Vec<(u32, u32, u64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| usage(&std::fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    let mut at = 0;
    while let Some(&member) = family.get(at) {
        for &(id, parent, used) in &all {
            if id == member {
                ticks += used;
            }
            if parent == member {
                family.push(id);
            }
        }
        at += 1;
    }
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Process, parent, and ticks of `/proc/<process>/stat`, with those of ended children.
fn usage(stat: &str) -> Option<(u32, u32, u64)> {
    // The name is in parentheses and may contain spaces.
    let (head, tail) = stat.rsplit_once(')')?;
    let process = head.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((process, parent, ticks))
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Waits until servers have finished their background work, so that it does not slow down the next target; at
/// most 2 seconds.
pub fn await_idle(processes: &[u32]) {
    const STEP: Duration = Duration::from_millis(100);
    // A clock tick is 10 ms; an idle server uses one now and then.
    const IDLE: f64 = 0.015;
    let distinct: BTreeSet<u32> = processes.iter().copied().collect();
    let used = || distinct.iter().map(|process| processor_seconds(*process)).sum::<f64>();
    let mut before = used();
    for _ in 0..20 {
        std::thread::sleep(STEP);
        let after = used();
        if after - before <= IDLE {
            return;
        }
        before = after;
    }
}

/// The first line that a program prints for `--version`.
pub fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("version unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_spaces_and_parentheses() {
        let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0";
        assert_eq!(usage(stat), Some((42, 7, 4330)));
        assert!(processor_seconds(std::process::id()) >= 0.0);
        assert!(resident_bytes(std::process::id()) > 0);
    }
}
