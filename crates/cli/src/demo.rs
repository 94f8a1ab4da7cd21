//! `jeton demo`: the filter remembering and forgetting under a surge, live in the terminal.
//!
//! [`Show`] is what happens; [`screen`] and [`plain`] are two ways to watch it, and both end with the same
//! [`summary`].

mod chance;
mod history;
mod load;
mod plain;
mod referee;
mod screen;
mod script;
mod show;
mod summary;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use self::script::Script;
use self::show::Show;
use crate::cli_error::CliError;
use crate::output;

/// The exact table needs the memory that the filter saves: some 60 MB for a demo of this length.
const SECONDS_MAX: i64 = 120;

/// Watch the filter remember and forget under a surge of ten times the load
///
/// Runs the real filter against a generated load: calm, a surge, calm again, silence. Some ids are sent again within
/// the window that the filter remembers (these must be caught), some long after it (these must be forgotten). An
/// exact table of all ids keeps the score.
#[derive(Args)]
pub struct Demo {
    /// How long it is, in seconds of its own time; the filter remembers for a sixth of it
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=SECONDS_MAX))]
    seconds: u32,

    /// How fast it is played: 2 is twice as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    speed: f64,

    /// The seed of its randomness: the same seed gives the same numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print a line a second instead of drawing, as in a pipe
    #[arg(long)]
    plain: bool,

    /// Do not wait for the time to pass; implies --plain
    #[arg(long, conflicts_with = "speed")]
    fast: bool,
}

impl Demo {
    pub fn run(&self) -> Result<()> {
        let script = Script::new(Duration::from_secs(self.seconds.into()));
        let mut show = Show::new(script, self.seed).map_err(|why| {
            CliError::of(why, "the demo could not set up its filter", "try a shorter demo with --seconds")
        })?;
        if self.plain || self.fast || !is_screen() {
            plain::play(&mut show, (!self.fast).then_some(self.speed))?;
        } else {
            screen::play(&mut show, self.speed).map_err(|why| {
                CliError::of(why, "the demo lost the terminal", "try it line by line: jeton demo --plain")
            })?;
        }
        for line in summary::lines(&show, self.seed) {
            output::line(&line)?;
        }
        match show.score().missed {
            0 => Ok(()),
            missed => bail!(CliError {
                what: format!("{missed} retries within the window were missed, which must never happen"),
                fix: format!("report it, with the seed {} and the length of {} s", self.seed, self.seconds),
            }),
        }
    }
}

/// Whether standard output is a terminal on which one can draw.
fn is_screen() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.01..=1_000.0).contains(&speed) => Ok(speed),
        _ => Err("not a number between 0.01 and 1000".into()),
    }
}
