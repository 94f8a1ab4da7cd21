//! `jeton tx run`: executes a transaction once.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Map, Value};

use crate::cli_error::CliError;
use crate::server_client::{Http, ServerArgs, escaped, json_of, problem_of};
use crate::{id, output};

/// Run a transaction
///
/// It takes effect once in all databases, or in none. If there is no response, run the command again with the
/// printed id: an executed transaction is not executed again, and its result is printed.
#[derive(Args)]
pub struct Run {
    /// Name of the procedure in the configuration file of the server
    procedure: String,

    /// A parameter; the value is parsed as JSON, or taken as text if it is not JSON
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// Id of the transaction, for a retry: a UUIDv7, optionally followed by a colon and a number [default: a
    /// new id]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Run {
    pub fn run(&self) -> Result<()> {
        let body = Value::Object(parameters(&self.parameters)?).to_string();
        let id = match &self.id {
            Some(id) => id.clone(),
            None => id::uuid7()?,
        };
        // Printed before the request is sent: the user needs it for a retry.
        output::aside(&format!("id {id}"));
        let path = format!("/v1/transactions/{}", escaped(&self.procedure));
        let key = format!("\"{id}\"");
        let mut headers = vec![("idempotency-key", key.as_str())];
        if self.id.is_none() {
            headers.push(("jeton-first-time", "true"));
        }
        let sent = Http(&self.server).ask_with("POST", &path, &headers, Some(&body), self.server.timeout());
        let (status, body) = sent.map_err(|error| unknown(error, &id))?;
        match status {
            409 | 500.. => Err(unknown(problem_of(status, &body), &id)),
            _ => self.print(&json_of(status, &body)?),
        }
    }

    fn print(&self, response: &Value) -> Result<()> {
        let outcome = response["outcome"].as_str().unwrap_or("?");
        if self.json {
            output::json(response)?;
        } else if outcome == "done" {
            output::json(&response["result"])?;
        }
        let what = match outcome {
            "done" => return Ok(()),
            "refused" => "the transaction was refused; a retry returns the same",
            "failed" => "the transaction can never succeed",
            _ => "all attempts failed",
        };
        let reason = response["reason"].as_str().unwrap_or("the server gave no reason").to_owned();
        let fix = "nothing has taken effect; to try again, use a new id";
        Err(CliError::of(anyhow!("{reason}"), what, fix))
    }
}

/// The outcome is unknown: no response, or one that does not say it.
fn unknown(error: anyhow::Error, id: &str) -> anyhow::Error {
    let cause = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let fix = format!("run it again with --id {id}: it takes effect once");
    CliError::of(anyhow!("{cause}"), "the outcome is unknown: the transaction may take effect", fix)
}

fn parameters(given: &[String]) -> Result<Map<String, Value>> {
    let mut read = Map::new();
    for text in given {
        let invalid = |reason: &str| {
            let what = format!("{text:?} is not a parameter");
            CliError::of(anyhow!("{reason}"), what, "write it as name=value")
        };
        let (name, value) = text.split_once('=').ok_or_else(|| invalid("it contains no ="))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if read.insert(name.to_owned(), value).is_some() {
            return Err(invalid("it is given twice"));
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_json_or_text() {
        let read =
            |given: &[&str]| parameters(&given.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let all = read(&["n=40", "t=Ann", "q=\"40\"", "e=", "b=true", "z=null", "x=a=b"]).unwrap();
        let expected = json!({"n": 40, "t": "Ann", "q": "40", "e": "", "b": true, "z": null, "x": "a=b"});
        assert_eq!(Value::Object(all), expected);
        assert!(read(&["n"]).is_err());
        assert!(read(&["n=1", "n=2"]).is_err());
    }
}
