//! `jeton bench`: a load on a running server, what it bore, and whether it counted right.

mod histogram;
mod load;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_resp::reply_parser::Value;
use serde_json::json;

use self::histogram::Latencies;
use self::load::{BenchCounts, Load};
use crate::cli_error::CliError;
use crate::config::DurationValue;
use crate::server_client::{Resp, ServerArgs};
use crate::{id, number_format, output};

/// Put a load on a running server, and see that it counts right
///
/// Adds 1 to counters of its own under new ids, sends some ids again, and in the end compares the counters with what was acknowledged. The
/// numbers are of this machine and this moment: compare them only with others of the same run.
#[derive(Args)]
pub struct Bench {
    /// Connections at work at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,

    /// Operations that a connection sends before it waits for answers
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,

    /// How long
    #[arg(long, value_name = "TIME", default_value = "5s")]
    duration: DurationValue,

    /// How many operations in a hundred carry an id that was sent before
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=90))]
    duplicates: u32,

    /// Counters that are added to
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    counters: u32,

    /// The table; it must take UUIDv7 ids
    #[arg(long, default_value = "default")]
    table: String,

    /// Leave the counters there; otherwise they are deleted, as far as the token may
    #[arg(long)]
    keep: bool,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Bench {
    pub fn run(&self) -> Result<()> {
        let mut run = [0; 8];
        id::chance(&mut run)?;
        // Rows that nobody has used: what they hold in the end is what was counted here.
        let prefix = format!("{}/bench-{:016x}-", self.table, u64::from_be_bytes(run));
        let began = Instant::now();
        let deadline = began + self.duration.0;
        let workers: Vec<Load> =
            (0..self.connections).map(|worker| Load::new(self, &prefix, worker)).collect::<Result<_>>()?;
        let results: Vec<Result<BenchCounts>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                workers.into_iter().map(|load| scope.spawn(move || load.run(deadline))).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<BenchCounts>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the load panicked")))
            };
            threads.into_iter().map(ended).collect()
        });
        let passed = began.elapsed();
        let mut total = BenchCounts::default();
        for counted in results {
            total.add(counted?);
        }
        let wrong = self.check(&prefix, &total)?;
        self.tell(&total, passed, &wrong)?;
        if wrong.is_empty() {
            return Ok(());
        }
        Err(CliError {
            what: format!("{} counters are wrong, which must never happen", wrong.len()),
            fix: "report it, with what is printed above and the log of the server".into(),
        }
        .into())
    }

    /// Reads all counters that were added to; returns those that hold something else than was acknowledged.
    fn check(&self, prefix: &str, total: &BenchCounts) -> Result<Vec<String>> {
        let mut connection = Resp::connect(&self.server)?;
        let mut wrong = Vec::new();
        for (counter, expected) in &total.by_counter {
            let key = format!("{prefix}{counter}");
            let held = connection.demand(&[b"JGET", key.as_bytes()])?.as_integer().unwrap_or(0);
            if held != *expected {
                wrong.push(format!("{key} holds {held}, and {expected} were acknowledged"));
            }
            if !self.keep {
                // Whoever may only add leaves them there.
                let _left = connection.ask(&[b"JDEL", key.as_bytes(), b"ID", id::uuid7()?.as_bytes()]);
            }
        }
        Ok(wrong)
    }

    fn tell(&self, total: &BenchCounts, passed: Duration, wrong: &[String]) -> Result<()> {
        let rate = (total.answered() as f64 / passed.as_secs_f64().max(1e-3)) as u64;
        let at = |share: f64| total.latencies.at(share);
        if self.json {
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            return output::json(&json!({
                "operations": total.answered(), "seconds": passed.as_secs_f64(), "operations_per_second": rate,
                "applied": total.applied, "replayed": total.replayed, "busy": total.busy,
                "latency_us": { "p50": micros(at(0.5)), "p99": micros(at(0.99)), "p999": micros(at(0.999)), "max": micros(at(1.0)) },
                "wrong": wrong,
            }));
        }
        output::line(&format!(
            "{} operations in {:.1} s: {} a second, over {} connections with {} under way on each",
            number_format::grouped(total.answered()),
            passed.as_secs_f64(),
            number_format::grouped(rate),
            self.connections,
            self.pipeline
        ))?;
        output::line(&format!(
            "  {} applied, {} replayed (of {} sent again), {} turned away as busy",
            number_format::grouped(total.applied),
            number_format::grouped(total.replayed),
            number_format::grouped(total.sent_again),
            number_format::grouped(total.busy)
        ))?;
        let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        output::line(&format!(
            "  a round took {} (half of them), {} (99 of 100), {} (999 of 1000), {} at most",
            millis(at(0.5)),
            millis(at(0.99)),
            millis(at(0.999)),
            millis(at(1.0))
        ))?;
        wrong.iter().try_for_each(|wrong| output::line(&format!("  WRONG: {wrong}")))?;
        if wrong.is_empty() {
            output::line(&format!(
                "  all {} counters hold exactly what was acknowledged",
                total.by_counter.len()
            ))?;
        }
        Ok(())
    }
}

/// What each counter must hold: what was acknowledged.
type ByCounter = HashMap<u32, i64>;

/// Whether the server turned it away: that is no failure of a load.
fn is_busy(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(b"BUSY"))
}
