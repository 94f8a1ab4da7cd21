//! The demo as lines of text, one for each second of its time: for pipes, logs and tests.
//!
//! What must hold: no escape codes, and without a pace no wait, so the same seed gives the same text.

use std::time::{Duration, Instant};

use anyhow::Result;
use forgetful_filter::Moment;

use super::show::Show;
use crate::number_format::{bytes, grouped};
use crate::output;

/// Plays the whole show; so much faster than real time, or without waiting at all.
pub fn play(show: &mut Show, speed: Option<f64>) -> Result<()> {
    let began = Instant::now();
    let window = show.script().window().as_secs_f64();
    output::line(&format!(
        "A filter that remembers ids for {window} s, then forgets them. A surge comes.\n"
    ))?;
    output::line(&row(
        ["time", "load", "ids/s", "known", "memory"],
        ["new", "caught", "missed", "mistaken", "forgotten"],
    ))?;
    let mut second = 0;
    while !show.is_over() {
        // The load of the second that passes, not of the one that begins.
        let load = show.script().phase(Moment::from_secs(second)).name();
        second += 1;
        if let Some(speed) = speed {
            let due = Duration::from_secs_f64(second as f64 / speed);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        show.play(Moment::from_secs(second), usize::MAX);
        output::line(&line(show, second, load))?;
    }
    output::line("")
}

fn line(show: &Show, second: u64, load: &str) -> String {
    let (status, score) = (show.status(), show.score());
    let time = format!("{second} s");
    let rate = grouped(show.history().rate());
    let (ids, memory) = (grouped(status.ids), bytes(status.bytes as u64));
    let counts = [score.accepted, score.caught, score.missed, score.mistaken, score.forgotten].map(grouped);
    row([&time, load, &rate, &ids, &memory], counts.each_ref().map(String::as_str))
}

/// The load and the filter, then the score; 80 columns.
fn row([time, load, rate, ids, memory]: [&str; 5], score: [&str; 5]) -> String {
    let [new, caught, missed, mistaken, forgotten] = score;
    format!(
        "{time:>5} {load:<9} {rate:>6} {ids:>7} {memory:>6} | \
         {new:>7} {caught:>6} {missed:>6} {mistaken:>8} {forgotten:>9}"
    )
}
