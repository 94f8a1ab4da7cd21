//! `jeton watch`: changes as they are made.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::Value;

use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, escaped, lost, problem_of};

/// The server says something every 15 seconds; who says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Watch counters change
///
/// A line for every change from now on: when, which counter, and its value. It says on standard error when it has begun.
#[derive(Args)]
pub struct Watch {
    /// A table, or a table and the beginning of rows as in clicks/home [default: all tables]
    what: Option<String>,

    /// End after so many changes
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Tell each change as a line of JSON, for programs
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
        let response = Http(&self.server).listen(&path, SILENCE)?;
        if response.status != 200 {
            let mut body = String::new();
            { response.body }.read_to_string(&mut body).map_err(|why| lost(&why))?;
            return Err(problem_of(response.status, &body));
        }
        let (mut event, mut seen) = (String::new(), 0);
        for line in BufReader::new(response.body).lines() {
            let line = line.map_err(|why| lost(&why))?;
            if line == ": watching" {
                output::aside("watching; Ctrl-C ends it");
            } else if let Some(name) = line.strip_prefix("event: ") {
                event = name.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                if event == "lagged" {
                    output::aside(&format!("changes were missed, because this was too slow: {data}"));
                    continue;
                }
                self.tell(data)?;
                seen += 1;
                if self.count == Some(seen) {
                    return Ok(());
                }
            }
        }
        Err(CliError {
            what: "the server ended the watching".into(),
            fix: "it is stopping, or the token was revoked: try again in a moment".into(),
        }
        .into())
    }

    fn tell(&self, data: &str) -> Result<()> {
        if self.json {
            return output::line(data);
        }
        let change: Value = serde_json::from_str(data).map_err(|why| anyhow!("no change: {why}"))?;
        let text = |name: &str| change[name].as_str().unwrap_or("-").to_owned();
        let row = change["row"].as_str().or(change["row_base64"].as_str()).unwrap_or("-");
        output::line(&format!("{}  {}/{row}  {}", text("time"), text("table"), text("value_text")))
    }
}
