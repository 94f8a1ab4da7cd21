//! `jeton top`: live metrics of a running server.

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

/// Show live metrics of a running server
///
/// Operations per second by status, connections, filters of tables, disk usage and storage errors. q quits.
#[derive(Args)]
pub struct Top {
    /// Print once as text, with totals since the start of the server
    #[arg(long)]
    once: bool,

    /// Refresh interval
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: DurationValue,

    #[command(flatten)]
    server: ServerArgs,
}

impl Top {
    pub fn run(&self) -> Result<()> {
        let first = self.sample()?;
        if self.once {
            let frame = frame(&self.server.http(), None, &first, Duration::ZERO);
            return frame.iter().try_for_each(|line| output::line(line));
        }
        let (mut before, mut sampled) = (first, Instant::now());
        let mut lines = frame(&self.server.http(), None, &before, Duration::ZERO);
        let every = self.every.0.max(Duration::from_millis(100));
        let shown = screen::show(every, || {
            let passed = sampled.elapsed();
            match self.sample() {
                Ok(now) => {
                    lines = frame(&self.server.http(), Some(&before), &now, passed);
                    (before, sampled) = (now, Instant::now());
                }
                // Keep running: the server may come back.
                Err(error) => {
                    lines.truncate(1);
                    lines.push(format!("{error:#}"));
                }
            }
            lines.clone()
        });
        shown
            .map_err(|error| CliError::of(error, "the terminal failed", "print it as text: jeton top --once"))
    }

    fn sample(&self) -> Result<Sample> {
        match Http(&self.server).ask("GET", "/metrics", None)? {
            (200, text) => Ok(Sample::of(&text)),
            (status, body) => Err(problem_of(status, &body)),
        }
    }
}
