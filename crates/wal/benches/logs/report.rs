//! What was measured, as a table: medians, and how far the turns were apart.

use std::time::Duration;

/// One turn of one subject.
#[derive(Default)]
pub struct Turn {
    pub registers: usize,
    pub groups: Vec<Duration>,
    pub elapsed: Duration,
}

/// All turns of all subjects.
pub struct Report {
    subjects: Vec<(String, Vec<Turn>)>,
}

impl Report {
    pub fn new(names: impl Iterator<Item = String>) -> Self {
        Self { subjects: names.map(|name| (name, Vec::new())).collect() }
    }

    pub fn add(&mut self, index: usize, turn: Turn) {
        self.subjects[index].1.push(turn);
    }

    pub fn print(&self) {
        println!("| log | registers/s, median [range] | group, p50 | group, p99 |");
        println!("|---|---|---|---|");
        for (name, turns) in &self.subjects {
            let mut rates: Vec<f64> = turns
                .iter()
                .map(|turn| turn.registers as f64 / turn.elapsed.as_secs_f64() / 1000.0)
                .collect();
            rates.sort_by(f64::total_cmp);
            let mut groups: Vec<Duration> =
                turns.iter().flat_map(|turn| turn.groups.iter().copied()).collect();
            groups.sort();
            let at = |share: usize| groups[(groups.len() - 1) * share / 100].as_secs_f64() * 1000.0;
            println!(
                "| {name} | {:.0} k [{:.0}–{:.0}] | {:.2} ms | {:.2} ms |",
                rates[rates.len() / 2],
                rates[0],
                rates[rates.len() - 1],
                at(50),
                at(99),
            );
        }
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".into());
        println!("\nload average: {}", load.trim());
    }
}
