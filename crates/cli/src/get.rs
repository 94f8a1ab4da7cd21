//! `jeton get`: reads counters.

use anyhow::Result;
use clap::Args;
use jeton_client::StoredValue;
use serde_json::json;

use crate::output;
use crate::server_client::{Resp, ServerArgs, check_key, error_of};

/// Read counters
///
/// Prints the value of one key, or one line with key and value per key. A counter that does not exist is 0.
#[derive(Args)]
pub struct Get {
    /// Counters: table/row, or a row of the default table
    #[arg(required = true)]
    keys: Vec<String>,

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
        for key in &self.keys {
            let stored = connection.block_on(connection.client.get(key)).map_err(error_of)?;
            let value = stored.as_ref().map_or(Some(0), StoredValue::counter);
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
            let value = value.map_or_else(
                || bytes.map_or_else(String::new, |bytes| bytes.escape_ascii().to_string()),
                |value| value.to_string(),
            );
            output::line(&if self.keys.len() == 1 { value } else { format!("{key} {value}") })?;
        }
        Ok(())
    }
}
