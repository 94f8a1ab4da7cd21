//! Progress on standard error: one live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Stderr, Write, stderr};
use std::time::{Duration, Instant};

use jeton_research::{Figure, Progress};

/// Least time between two updates of the live line.
const INTERVAL: Duration = Duration::from_millis(100);

/// Moves the cursor to the start of the line and erases the line.
const CLEAR: &str = "\r\x1b[2K";

/// Columns of the bar.
const BAR: usize = 20;

pub struct ProgressLine<W: Write> {
    out: W,
    live: bool,
    /// Number, name and title of the current figure.
    label: String,
    started: Instant,
    drawn: Option<Instant>,
}

impl ProgressLine<Stderr> {
    pub fn on_stderr() -> Self {
        let live = stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self::new(stderr(), live)
    }
}

impl<W: Write> ProgressLine<W> {
    fn new(out: W, live: bool) -> Self {
        Self { out, live, label: String::new(), started: Instant::now(), drawn: None }
    }

    /// Ignores errors: the figures do not depend on the progress line.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    fn draw(&mut self, share: f64) {
        self.drawn = Some(Instant::now());
        let width = terminal_size::terminal_size().map_or(80, |(columns, _)| usize::from(columns.0));
        let line = live_line(&self.label, share, width);
        self.write(&format!("{CLEAR}{line}"));
    }
}

impl<W: Write> Progress for ProgressLine<W> {
    fn start(&mut self, number: usize, total: usize, figure: &Figure) {
        self.label = format!("{number}/{total} {}: {}", figure.name, figure.title);
        self.started = Instant::now();
        if self.live {
            self.draw(0.0);
        } else {
            self.write(&format!("{}\n", self.label));
        }
    }

    fn advance(&mut self, share: f64) {
        if self.live && self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL) {
            self.draw(share);
        }
    }

    fn finish(&mut self, figure: &Figure) {
        let clear = if self.live { CLEAR } else { "" };
        self.write(&format!(
            "{clear}{} done in {:.1} s\n",
            figure.name,
            self.started.elapsed().as_secs_f64()
        ));
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    /// Clears the live line of a figure that failed, so that the error message starts on an empty line.
    fn drop(&mut self) {
        if self.live {
            self.write(CLEAR);
        }
    }
}

/// A bar, a percentage and the label, cut to one line: a line that wraps cannot be redrawn.
fn live_line(label: &str, share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar = format!("{}{} {:>3.0} %  ", "█".repeat(full), "░".repeat(BAR - full), share * 100.0);
    bar.chars().chain(label.chars()).take(width.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(live: bool) -> String {
        let mut out = Vec::new();
        let figure = &jeton_research::figures()[0];
        let mut progress = ProgressLine::new(&mut out, live);
        progress.start(2, 7, figure);
        progress.advance(0.5);
        progress.finish(figure);
        drop(progress);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_log_has_a_start_line_and_an_end_line() {
        let output = output(false);
        let lines: Vec<&str> = output.lines().collect();
        let [start, finish] = lines[..] else { panic!("{output}") };
        assert!(start.starts_with("2/7 fig8: "), "{start}");
        assert!(finish.starts_with("fig8 done in "), "{finish}");
        assert!(!output.contains('\x1b'), "{output}");
    }

    #[test]
    fn a_terminal_keeps_one_line_for_each_figure() {
        let output = output(true);
        assert_eq!(output.matches('\n').count(), 1, "{output:?}");
        assert!(output.starts_with(CLEAR) && output.ends_with(CLEAR), "{output:?}");
    }

    #[test]
    fn live_line_fits_into_the_terminal() {
        assert_eq!(live_line("1/7 fig8: a title", 0.5, 36), "██████████░░░░░░░░░░  50 %  1/7 fig");
        for width in 0..100 {
            assert!(live_line("1/7 fig8: a title", 1.0, width).chars().count() < width.max(1));
        }
    }
}
