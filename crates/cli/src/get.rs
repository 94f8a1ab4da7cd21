//! `jeton get`: reads counters.

use anyhow::Result;
use clap::Args;
use jeton_resp::reply_parser::Value;
use serde_json::json;

use crate::output;
use crate::server_client::{Resp, ServerArgs, check_key};

/// Read counters
///
/// Prints the value of one key, or a line of key and value for each of several. What nobody has added to is 0.
#[derive(Args)]
pub struct Get {
    /// The counters, each as table/row, or as row of the default table
    #[arg(required = true)]
    keys: Vec<String>,

    /// Tell it as JSON, for programs: a line for each key
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
            let held = connection.demand(&[b"JGET", key.as_bytes()])?;
            if self.json {
                let text = held.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let exists = held != Value::Null;
                let value = if exists { held.as_integer() } else { Some(0) };
                let value_text = value.map(|value| value.to_string());
                output::json(
                    &json!({ "key": key, "value": value, "value_text": value_text, "exists": exists, "text": text }),
                )?;
                continue;
            }
            let value = match &held {
                Value::Integer(value) => value.to_string(),
                Value::Null => "0".into(),
                other => other.as_bytes().map_or_else(String::new, |bytes| bytes.escape_ascii().to_string()),
            };
            output::line(&if self.keys.len() == 1 { value } else { format!("{key} {value}") })?;
        }
        Ok(())
    }
}
