//! `jeton top`: how a running server is doing, live.

mod render;
mod sample;
mod screen;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use self::render::frame;
use self::sample::Sample;
use crate::cli_error::CliError;
use crate::config::DurationValue;
use crate::output;
use crate::server_client::{Http, ServerArgs, problem_of};

/// Watch how a running server is doing
///
/// Operations a second by what became of them, connections, tables with their filters, what is on disk, and trouble. q ends it.
#[derive(Args)]
pub struct Top {
    /// Print it once, as text; rates are of the time since the server started to count
    #[arg(long)]
    once: bool,

    /// How often it is asked
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: DurationValue,

    #[command(flatten)]
    server: ServerArgs,
}

impl Top {
    pub fn run(&self) -> Result<()> {
        let first = self.ask()?;
        if self.once {
            let frame = frame(&self.server.http(), None, &first, Duration::ZERO);
            return frame.iter().try_for_each(|line| output::line(line));
        }
        let (mut before, mut asked) = (first, Instant::now());
        let mut lines = frame(&self.server.http(), None, &before, Duration::ZERO);
        let every = self.every.0.max(Duration::from_millis(100));
        let shown = screen::show(every, || {
            let passed = asked.elapsed();
            match self.ask() {
                Ok(now) => {
                    lines = frame(&self.server.http(), Some(&before), &now, passed);
                    (before, asked) = (now, Instant::now());
                }
                // It may come back, and then one wants to see that.
                Err(error) => {
                    lines.truncate(1);
                    lines.push(format!("{error:#}"));
                }
            }
            lines.clone()
        });
        shown.map_err(|why| CliError::of(why, "the terminal was lost", "try it as text: jeton top --once"))
    }

    fn ask(&self) -> Result<Sample> {
        match Http(&self.server).ask("GET", "/metrics", None)? {
            (200, text) => Ok(Sample::of(&text)),
            (status, body) => Err(problem_of(status, &body)),
        }
    }
}
