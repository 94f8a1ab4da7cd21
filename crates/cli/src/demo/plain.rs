//! The demo as lines of text, one for each second of its time: for pipes, logs and tests.
//!
//! What must hold: no escape codes, and without a pace no wait, so the same seed gives the same text.

use std::time::{Duration, Instant};

use anyhow::Result;
use forgetful_filter::Moment;

use super::show::Show;
use crate::number::{bytes, grouped, percent};
use crate::output;

/// Plays the whole show; so much faster than real time, or without waiting at all.
pub fn play(show: &mut Show, speed: Option<f64>) -> Result<()> {
    let began = Instant::now();
    output::line(&format!(
        "A filter that remembers ids for {} s, then forgets them. Sized for calm; a surge comes.\n\n\
         {:>5}  {:<9} {:>8} {:>11} {:>8} {:>9} | {:>9} {:>7} {:>6} {:>8} {:>9}",
        show.script().window().as_secs_f64(),
        "time",
        "load",
        "ids/s",
        "remembered",
        "memory",
        "expected",
        "new",
        "caught",
        "missed",
        "mistaken",
        "forgotten"
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
    format!(
        "{:>3} s  {:<9} {:>8} {:>11} {:>8} {:>9} | {:>9} {:>7} {:>6} {:>8} {:>9}",
        second,
        load,
        grouped(show.history().rate()),
        grouped(status.ids),
        bytes(status.bytes as u64),
        percent(status.false_positive_rate),
        grouped(score.accepted),
        grouped(score.caught),
        grouped(score.missed),
        grouped(score.mistaken),
        grouped(score.forgotten),
    )
}
