//! `jeton watch`: prints committed changes as they happen.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::Value;

use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, escaped};

/// The server sends a line at least every 15 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Print changes of counters as they happen
///
/// One line per change: time, counter and value. A line on standard error says when watching has started.
#[derive(Args)]
pub struct Watch {
    /// A table, or a table and a prefix of rows, such as clicks/home [default: all tables]
    what: Option<String>,

    /// Stop after N changes
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Print JSON, one line per change
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Watch {
    pub fn run(&self) -> Result<()> {
        let path = match self.what.as_deref().map(|what| what.split_once('/').unwrap_or((what, ""))) {
            None => "/v1/watch".into(),
            Some((table, prefix)) => format!("/v1/watch?table={}&prefix={}", escaped(table), escaped(prefix)),
        };
        let (mut event, mut seen, mut is_complete) = (String::new(), 0, false);
        Http(&self.server).listen(&path, READ_TIMEOUT, |line| {
            if line == ": watching" {
                output::aside("watching; Ctrl-C stops it");
            } else if let Some(name) = line.strip_prefix("event: ") {
                event = name.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                if event == "lagged" {
                    output::aside(&format!("changes were missed because this client was too slow: {data}"));
                    return Ok(true);
                }
                self.print(data)?;
                seen += 1;
                is_complete = self.count == Some(seen);
            }
            Ok(!is_complete)
        })?;
        if is_complete {
            return Ok(());
        }
        Err(CliError::without_cause(
            "the server closed the change feed",
            "the server is stopping, or the token was revoked: try again",
        ))
    }

    fn print(&self, data: &str) -> Result<()> {
        if self.json {
            return output::line(data);
        }
        let change: Value = serde_json::from_str(data)
            .map_err(|error| anyhow!("the event of the server is not JSON: {error}"))?;
        let text = |name: &str| change[name].as_str().unwrap_or("-").to_owned();
        let row = change["row"].as_str().or(change["row_base64"].as_str()).unwrap_or("-");
        output::line(&format!("{}  {}/{row}  {}", text("time"), text("table"), text("value_text")))
    }
}
