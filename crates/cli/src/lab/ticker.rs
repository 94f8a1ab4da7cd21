//! Tells on standard error how far the lab is: a live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Stderr, Write, stderr};
use std::time::{Duration, Instant};

use jeton_lab::{Figure, Progress};
use ratatui::crossterm::terminal;

/// Time between two states of the live line.
const EVERY: Duration = Duration::from_millis(100);

/// Back to the beginning of an empty line.
const CLEAR: &str = "\r\x1b[2K";

/// Cells of the bar.
const BAR: usize = 20;

pub struct ProgressLine<W: Write> {
    out: W,
    live: bool,
    /// Which figure it is, for the live line.
    label: String,
    began: Instant,
    told: Option<Instant>,
}

impl ProgressLine<Stderr> {
    pub fn on_stderr() -> Self {
        let live = stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self::new(stderr(), live)
    }
}

impl<W: Write> ProgressLine<W> {
    fn new(out: W, live: bool) -> Self {
        Self { out, live, label: String::new(), began: Instant::now(), told: None }
    }

    /// Progress is a courtesy: if it cannot be told, the work goes on.
    fn tell(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    fn tell_live(&mut self, share: f64) {
        self.told = Some(Instant::now());
        let width = terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let line = live_line(&self.label, share, width);
        self.tell(&format!("{CLEAR}{line}"));
    }
}

impl<W: Write> Progress for ProgressLine<W> {
    fn start(&mut self, number: usize, total: usize, figure: &Figure) {
        self.label = format!("{number}/{total} {}: {}", figure.name, figure.title);
        self.began = Instant::now();
        if self.live {
            self.tell_live(0.0);
        } else {
            self.tell(&format!("{}\n", self.label));
        }
    }

    fn advance(&mut self, share: f64) {
        if self.live && self.told.is_none_or(|told| told.elapsed() >= EVERY) {
            self.tell_live(share);
        }
    }

    fn finish(&mut self, figure: &Figure) {
        let clear = if self.live { CLEAR } else { "" };
        self.tell(&format!("{clear}{} done in {:.1} s\n", figure.name, self.began.elapsed().as_secs_f64()));
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    /// A figure that failed leaves its live line: what is said next must not stand beside it.
    fn drop(&mut self) {
        if self.live {
            self.tell(CLEAR);
        }
    }
}

/// A bar, a percentage and as much of the label as one line has room for: a line that wraps cannot be replaced.
fn live_line(label: &str, share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar = format!("{}{} {:>3.0} %  ", "█".repeat(full), "░".repeat(BAR - full), share * 100.0);
    bar.chars().chain(label.chars()).take(width.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(live: bool) -> String {
        let mut out = Vec::new();
        let figure = &jeton_lab::figures()[0];
        let mut ticker = ProgressLine::new(&mut out, live);
        ticker.start(2, 7, figure);
        ticker.advance(0.5);
        ticker.finish(figure);
        drop(ticker);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_log_gets_a_line_at_the_beginning_and_one_at_the_end() {
        let told = told(false);
        let lines: Vec<&str> = told.lines().collect();
        let [start, finish] = lines[..] else { panic!("{told}") };
        assert!(start.starts_with("2/7 fig8: "), "{start}");
        assert!(finish.starts_with("fig8 done in "), "{finish}");
        assert!(!told.contains('\x1b'), "{told}");
    }

    #[test]
    fn a_terminal_keeps_one_line_for_each_figure() {
        let told = told(true);
        assert_eq!(told.matches('\n').count(), 1, "{told:?}");
        assert!(told.starts_with(CLEAR) && told.ends_with(CLEAR), "{told:?}");
    }

    #[test]
    fn the_live_line_fits_into_the_terminal() {
        assert_eq!(live_line("1/7 fig8: a title", 0.5, 36), "██████████░░░░░░░░░░  50 %  1/7 fig");
        for width in 0..100 {
            assert!(live_line("1/7 fig8: a title", 1.0, width).chars().count() < width.max(1));
        }
    }
}
