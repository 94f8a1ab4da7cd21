//! `jeton get`: reads counters.

use anyhow::Result;
use clap::Args;
use jeton_resp::reply_parser::Value;
use serde_json::json;

use crate::output;
use crate::server_client::{Resp, ServerArgs, check_key};

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
        let mut connection = Resp::connect(&self.server)?;
        for key in &self.keys {
            let reply = connection.demand(&[b"JGET", key.as_bytes()])?;
            if self.json {
                let text = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let exists = reply != Value::Null;
                let value = if exists { reply.as_integer() } else { Some(0) };
                let value_text = value.map(|value| value.to_string());
                output::json(
                    &json!({ "key": key, "value": value, "value_text": value_text, "exists": exists, "text": text }),
                )?;
                continue;
            }
            let value = match &reply {
                Value::Integer(value) => value.to_string(),
                Value::Null => "0".into(),
                other => other.as_bytes().map_or_else(String::new, |bytes| bytes.escape_ascii().to_string()),
            };
            output::line(&if self.keys.len() == 1 { value } else { format!("{key} {value}") })?;
        }
        Ok(())
    }
}
