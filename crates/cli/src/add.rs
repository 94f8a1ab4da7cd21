//! `jeton add`: adds to a counter once.
//!
//! The id is chosen before the first attempt, every attempt carries it, and an error with an unknown outcome
//! prints it.

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_client::{AttemptError, Error, Id, Status};
use serde_json::json;

use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Resp, ServerArgs, attempt_error_of, check_key, error_of, status_of};

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
        let connection = Resp::connect(&self.server)?;
        let id = match &self.id {
            Some(id) => Id::new(id).map_err(|error| {
                CliError::of(error, format!("{id:?} is not an id"), "create one: jeton id")
            })?,
            None => connection.client.new_id(),
        };
        let mut add = connection.client.add(&self.key, self.delta).id(id);
        add = self.min.into_iter().fold(add, jeton_client::Add::min);
        add = self.max.into_iter().fold(add, jeton_client::Add::max);
        let outcome = connection.block_on(add).map_err(|error| match error {
            Error::Unknown { id, last } => self.unknown(&id, &last),
            error => error_of(error),
        })?;
        let status = status_of(&outcome);
        if self.json {
            let value_text = outcome.value.map(|value| value.to_string());
            output::json(&json!({
                "key": self.key, "value": outcome.value, "value_text": value_text, "status": status,
                "id": outcome.id.as_str()
            }))?;
        } else {
            let value = outcome.value.map_or("-".into(), |value| value.to_string());
            output::line(&format!("{value} {status}"))?;
        }
        if outcome.status == Status::Refused {
            return Err(CliError::without_cause(
                format!("nothing was added to {}: the sum would be out of bounds", self.key),
                "add less under a new id; this id stays refused",
            ));
        }
        Ok(())
    }

    fn unknown(&self, id: &Id, last: &AttemptError) -> anyhow::Error {
        let bounds = [("min", self.min), ("max", self.max)];
        let bounds: String =
            bounds.iter().filter_map(|(name, bound)| Some(format!(" --{name} {}", (*bound)?))).collect();
        let fix = format!(
            "retry with the same id, which counts once: jeton add {} {} --id {id}{bounds}",
            self.key, self.delta
        );
        let last = attempt_error_of(last);
        CliError::of(anyhow!("{last:#}"), "there was no response: the outcome is unknown", fix)
    }
}
