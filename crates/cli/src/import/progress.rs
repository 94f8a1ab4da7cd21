//! How far it is, on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use super::pipeline::ImportCounts;
use crate::number_format;

/// The time between two states of the line.
const EVERY: Duration = Duration::from_millis(100);

/// Cells of the bar.
const BAR: usize = 24;

/// A line that is written over and over.
pub struct Progress {
    /// Whether anybody sees it.
    live: bool,
    total: Option<u64>,
    began: Instant,
    told: Option<Instant>,
}

impl Progress {
    /// Of so many bytes, if that is known.
    pub fn of(total: Option<u64>) -> Self {
        let live = stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { live, total, began: Instant::now(), told: None }
    }

    /// Tells how far it is, now and then.
    pub fn tell(&mut self, bytes: u64, tally: &ImportCounts) {
        if !self.live || self.told.is_some_and(|told| told.elapsed() < EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        let text = text(self.total, bytes, tally.all(), self.began.elapsed());
        let _unseen = write!(stderr(), "\r\x1b[2K{text}");
    }

    /// Leaves an empty line.
    pub fn end(&self) {
        if self.told.is_some() {
            let _unseen = write!(stderr(), "\r\x1b[2K");
        }
    }
}

fn text(total: Option<u64>, bytes: u64, lines: u64, passed: Duration) -> String {
    let rate = (lines as f64 / passed.as_secs_f64().max(1e-3)) as u64;
    let counted = format!("{} lines, {}/s", number_format::grouped(lines), number_format::grouped(rate));
    let Some(total) = total.filter(|total| *total > 0) else { return counted };
    let share = (bytes as f64 / total as f64).min(1.0);
    let full = (share * BAR as f64) as usize;
    format!("[{}{}] {:>3.0} %  {counted}", "#".repeat(full), "-".repeat(BAR - full), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let second = Duration::from_secs(1);
        assert_eq!(
            text(Some(100), 50, 1200, second),
            "[############------------]  50 %  1,200 lines, 1,200/s"
        );
        assert_eq!(text(None, 50, 10, second), "10 lines, 10/s");
        assert!(text(Some(100), 200, 1, second).contains("100 %"));
    }
}
