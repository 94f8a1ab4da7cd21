//! `jeton add`: adds to a counter, once.
//!
//! What must hold: the id is there before anything is sent, every attempt carries it, and whoever is left without an answer is told it.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_resp::reply_parser::Value;
use serde_json::json;

use crate::cli_error::CliError;
use crate::server_client::{AddResult, Resp, ServerArgs, check_key, failure_of, lost};
use crate::{id, output};

/// The pause before the same is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// Add to a counter, once for each id
///
/// Prints the value and what became of it: applied; replayed (the id was known: this is its first answer, and nothing was added now);
/// refused (it would have left --min or --max; then the exit code is 1).
#[derive(Args)]
pub struct Add {
    /// The counter, as table/row, or as row of the default table
    key: String,

    /// What to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,

    /// The id of the operation; a retry carries the same [default: a new UUIDv7]
    #[arg(long)]
    id: Option<String>,

    /// If the sum would be below this, nothing is added
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min: Option<i64>,

    /// If the sum would be above this, nothing is added
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max: Option<i64>,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Add {
    pub fn run(&self) -> Result<()> {
        check_key(&self.key)?;
        let id = self.id.clone().map_or_else(id::uuid7, Ok)?;
        let answered = self.until_answered(&id)?;
        if self.json {
            let value_text = answered.value.map(|value| value.to_string());
            output::json(&json!({
                "key": self.key, "value": answered.value, "value_text": value_text, "status": answered.status, "id": id
            }))?;
        } else {
            let value = answered.value.map_or("-".into(), |value| value.to_string());
            output::line(&format!("{value} {}", answered.status))?;
        }
        if answered.status.starts_with("refused") {
            return Err(CliError {
                what: format!("nothing was added to {}: it would have left the bounds", self.key),
                fix: "ask for less; under this id it stays refused".into(),
            }
            .into());
        }
        Ok(())
    }

    /// Asks until there is an answer or the time is over; always under the same id, so that it counts once.
    fn until_answered(&self, id: &str) -> Result<AddResult> {
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
        // Whoever does not answer at all is told about at once: nothing was sent.
        let mut connection = Some(Resp::connect(&self.server)?);
        let mut last;
        loop {
            let asked = match &mut connection {
                Some(connection) => connection.ask(&command),
                None => Err(std::io::ErrorKind::NotConnected.into()),
            };
            match asked {
                Ok(Value::Error(text)) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    if !text.starts_with("BUSY") && !text.starts_with("LOADING") {
                        return Err(failure_of(&text));
                    }
                    last = failure_of(&text);
                }
                Ok(value) => return AddResult::of(&value),
                Err(why) => {
                    last = lost(&why);
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
            "ask again with the same id, which counts once: jeton add {} {} --id {id}{bounds}",
            self.key, self.delta
        );
        CliError::of(anyhow!("{last:#}"), "there is no answer: whether it was counted is not known", fix)
    }
}
