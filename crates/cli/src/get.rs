//! `jeton get`: reads counters.

use anyhow::Result;
use clap::Args;
use jeton_client::StoredValue;
use serde_json::json;

use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Resp, ServerArgs, check_key, error_of};

/// Read counters
///
/// Prints the value of one key, or one line with key and value per key. For a counter that does not exist it
/// prints (none), and the exit code is 1; --default 0 prints 0 instead.
#[derive(Args)]
pub struct Get {
    /// Counters: table/row, or a row of the default table
    #[arg(required = true)]
    keys: Vec<String>,

    /// Value to print for a counter that does not exist
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    default: Option<i64>,

    /// Print JSON, one line per key
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Get {
    pub fn run(&self) -> Result<()> {
        self.keys.iter().try_for_each(|key| check_key(key))?;
        let connection = Resp::connect(&self.server)?;
        let mut missing = Vec::new();
        for key in &self.keys {
            let stored = connection.block_on(connection.client.get(key)).map_err(error_of)?;
            let value = stored.as_ref().map_or(self.default, StoredValue::counter);
            if stored.is_none() && value.is_none() {
                missing.push(key.as_str());
            }
            let bytes = match &stored {
                Some(StoredValue::Bytes(bytes)) => Some(bytes),
                _ => None,
            };
            if self.json {
                output::json(&json!({
                    "key": key, "value": value, "value_text": value.map(|value| value.to_string()),
                    "exists": stored.is_some(), "text": bytes.map(|bytes| String::from_utf8_lossy(bytes)),
                }))?;
                continue;
            }
            let value = match (value, bytes) {
                (Some(value), _) => value.to_string(),
                (None, Some(bytes)) => bytes.escape_ascii().to_string(),
                (None, None) => "(none)".to_owned(),
            };
            output::line(&if self.keys.len() == 1 { value } else { format!("{key} {value}") })?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!("no such counter: {}", missing.join(", "));
        Err(CliError::without_cause(
            what,
            "check the name; --default 0 prints 0 for a counter that does not exist",
        ))
    }
}
