//! `jeton bench`: load on a running server, with latencies and a check of the counters.

mod load;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use jeton_client::{Client, StoredValue};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use self::load::{BenchCounts, Load};
use crate::cli_error::CliError;
use crate::config::DurationValue;
use crate::server_client::{Resp, ServerArgs, error_of};
use crate::{id, number_format, output};

/// Put load on a running server and check its counters
///
/// Adds 1 to new counters under new ids, repeats some ids, and compares the counters with the acknowledged
/// operations at the end. The figures depend on this machine: compare only runs on the same one.
#[derive(Args)]
pub struct Bench {
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,

    /// Operations in flight per connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,

    /// Duration of the load
    #[arg(long, value_name = "TIME", default_value = "5s")]
    duration: DurationValue,

    /// Percentage of operations with an id that was sent before
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=90))]
    duplicates: u32,

    /// Number of counters
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    counters: u32,

    /// Table; it must accept UUIDv7 ids
    #[arg(long, default_value = "default")]
    table: String,

    /// Keep the counters; otherwise they are deleted, if the token has the right
    #[arg(long)]
    keep: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Bench {
    pub fn run(&self) -> Result<()> {
        // New rows: at the end they contain only operations of this run.
        let prefix = format!("{}/bench-{}-", self.table, id::uuid7()?);
        let connection = Resp::with(&self.server, self.server.timeout(), Builder::new_multi_thread())?;
        let options = Resp::options(&self.server, self.server.timeout())?;
        let started = Instant::now();
        let deadline = started + self.duration.0;
        let total = connection.block_on(async {
            let mut workers = JoinSet::new();
            for worker in 0..self.connections {
                let client = Client::new(options.clone()).map_err(error_of)?;
                workers.spawn(Load::new(self, client, &prefix, worker).run(deadline));
            }
            let mut total = BenchCounts::default();
            while let Some(counted) = workers.join_next().await {
                total.add(counted??);
            }
            anyhow::Ok(total)
        })?;
        let elapsed = started.elapsed();
        let wrong = self.check(&connection, &prefix, &total)?;
        self.print(&total, elapsed, &wrong)?;
        if wrong.is_empty() {
            return Ok(());
        }
        Err(CliError::without_cause(
            format!("{} counters are wrong", wrong.len()),
            "report this bug with the output above and the log of the server",
        ))
    }

    /// Compares all counters with the acknowledged operations. Returns the differences.
    fn check(&self, connection: &Resp, prefix: &str, total: &BenchCounts) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for (counter, expected) in &total.by_counter {
            let key = format!("{prefix}{counter}");
            let stored = connection.block_on(connection.client.get(&key)).map_err(error_of)?;
            let value = stored.as_ref().and_then(StoredValue::counter).unwrap_or(0);
            if value != *expected {
                wrong.push(format!("{key} is {value}, and {expected} operations were acknowledged"));
            }
            if !self.keep {
                // Fails without the right to delete; the counters then stay.
                let _ignored = connection.block_on(connection.client.delete(&key));
            }
        }
        Ok(wrong)
    }

    fn print(&self, total: &BenchCounts, elapsed: Duration, wrong: &[String]) -> Result<()> {
        let rate = (total.completed() as f64 / elapsed.as_secs_f64().max(1e-3)) as u64;
        let at = |quantile: f64| Duration::from_micros(total.latencies.value_at_quantile(quantile));
        if self.json {
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            return output::json(&json!({
                "operations": total.completed(), "seconds": elapsed.as_secs_f64(),
                "operations_per_second": rate,
                "applied": total.applied, "replayed": total.replayed, "busy": total.busy,
                "latency_us": {
                    "p50": micros(at(0.5)), "p99": micros(at(0.99)), "p999": micros(at(0.999)), "max": micros(at(1.0)),
                },
                "wrong": wrong,
            }));
        }
        output::line(&format!(
            "{} operations in {:.1} s: {} per second, {} connections with {} operations in flight each",
            number_format::grouped(total.completed()),
            elapsed.as_secs_f64(),
            number_format::grouped(rate),
            self.connections,
            self.pipeline
        ))?;
        output::line(&format!(
            "  {} applied, {} replayed (of {} repeated), {} rejected as busy",
            number_format::grouped(total.applied),
            number_format::grouped(total.replayed),
            number_format::grouped(total.sent_again),
            number_format::grouped(total.busy)
        ))?;
        let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        output::line(&format!(
            "  latency of a pipeline: p50 {}, p99 {}, p99.9 {}, max {}",
            millis(at(0.5)),
            millis(at(0.99)),
            millis(at(0.999)),
            millis(at(1.0))
        ))?;
        wrong.iter().try_for_each(|wrong| output::line(&format!("  WRONG: {wrong}")))?;
        if wrong.is_empty() {
            output::line(&format!(
                "  all {} counters equal the acknowledged operations",
                total.by_counter.len()
            ))?;
        }
        Ok(())
    }
}

/// Expected value of each counter: the sum of its acknowledged operations.
type ByCounter = HashMap<u32, i64>;
