//! `jeton add`: adds to a counter once.
//!
//! The id is chosen before the first attempt, every attempt carries it, and an error with an unknown outcome
//! prints it.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_resp::reply_parser::Value;
use serde_json::json;

use crate::cli_error::CliError;
use crate::server_client::{AddResult, Resp, ServerArgs, check_key, failure_of, lost};
use crate::{id, output};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Add to a counter, once per id
///
/// Prints the value and the status: applied; replayed (the id was known: this is its first result, and
/// nothing was added now); refused (the sum would have been outside --min or --max; the exit code is 1).
#[derive(Args)]
pub struct Add {
    /// Counter: table/row, or a row of the default table
    key: String,

    /// Amount to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,

    /// Id of the operation; a retry uses the same id [default: a new UUIDv7]
    #[arg(long)]
    id: Option<String>,

    /// Add nothing if the sum would be below this
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min: Option<i64>,

    /// Add nothing if the sum would be above this
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max: Option<i64>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Add {
    pub fn run(&self) -> Result<()> {
        check_key(&self.key)?;
        let id = self.id.clone().map_or_else(id::uuid7, Ok)?;
        let result = self.send_until_result(&id)?;
        if self.json {
            let value_text = result.value.map(|value| value.to_string());
            output::json(&json!({
                "key": self.key, "value": result.value, "value_text": value_text, "status": result.status, "id": id
            }))?;
        } else {
            let value = result.value.map_or("-".into(), |value| value.to_string());
            output::line(&format!("{value} {}", result.status))?;
        }
        if result.status.starts_with("refused") {
            return Err(CliError {
                what: format!("nothing was added to {}: the sum would be out of bounds", self.key),
                fix: "add less under a new id; this id stays refused".into(),
            }
            .into());
        }
        Ok(())
    }

    /// Sends until there is a result or the timeout is over, always with the same id.
    fn send_until_result(&self, id: &str) -> Result<AddResult> {
        let texts =
            [self.delta, self.min.unwrap_or_default(), self.max.unwrap_or_default()].map(|n| n.to_string());
        let mut command: Vec<&[u8]> =
            vec![b"JADD", self.key.as_bytes(), texts[0].as_bytes(), b"ID", id.as_bytes()];
        for (word, bound, text) in [(&b"MIN"[..], self.min, &texts[1]), (b"MAX", self.max, &texts[2])] {
            if bound.is_some() {
                command.extend([word, text.as_bytes()]);
            }
        }
        let deadline = Instant::now() + self.server.timeout();
        // A server that does not accept the first connection is reported at once: nothing was sent.
        let mut connection = Some(Resp::connect(&self.server)?);
        let mut last;
        loop {
            let reply = match &mut connection {
                Some(connection) => connection.ask(&command),
                None => Err(std::io::ErrorKind::NotConnected.into()),
            };
            match reply {
                Ok(Value::Error(text)) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    if !text.starts_with("BUSY") && !text.starts_with("LOADING") {
                        return Err(failure_of(&text));
                    }
                    last = failure_of(&text);
                }
                Ok(value) => return AddResult::of(&value),
                Err(error) => {
                    last = lost(&error);
                    connection = Resp::connect(&self.server).ok();
                }
            }
            if Instant::now() >= deadline {
                return Err(self.unknown(id, &last));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn unknown(&self, id: &str, last: &anyhow::Error) -> anyhow::Error {
        let bounds = [("min", self.min), ("max", self.max)];
        let bounds: String =
            bounds.iter().filter_map(|(name, bound)| Some(format!(" --{name} {}", (*bound)?))).collect();
        let fix = format!(
            "retry with the same id, which counts once: jeton add {} {} --id {id}{bounds}",
            self.key, self.delta
        );
        CliError::of(anyhow!("{last:#}"), "there was no response: the outcome is unknown", fix)
    }
}
