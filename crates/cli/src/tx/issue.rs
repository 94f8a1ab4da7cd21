//! `jeton tx issue`: asks for a transaction, once.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Map, Value};

use super::{parse, problem};
use crate::cli_error::CliError;
use crate::server_client::{Http, ServerArgs, escaped};
use crate::{id, output};

/// Ask for a transaction
///
/// It takes effect once in all databases, or in none. If there is no answer, ask again with the id that was printed: what was done is not done again, and its
/// answer is told.
#[derive(Args)]
pub struct Issue {
    /// The procedure, as the configuration file of the server has it
    procedure: String,

    /// A parameter; the value is JSON if it can be read as JSON, and else a text
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// The id, for asking again: a UUID of version 7, which may be followed by a colon and a number [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Issue {
    pub fn run(&self) -> Result<()> {
        let body = Value::Object(parameters(&self.parameters)?).to_string();
        let id = match &self.id {
            Some(id) => id.clone(),
            None => id::uuid7()?,
        };
        // Before anything is sent: whoever hears nothing after this needs it.
        output::aside(&format!("id {id}"));
        let path = format!("/v1/transactions/{}", escaped(&self.procedure));
        let key = format!("\"{id}\"");
        let mut headers = vec![("idempotency-key", key.as_str())];
        if self.id.is_none() {
            headers.push(("jeton-first-time", "true"));
        }
        let asked = Http(&self.server).ask_with("POST", &path, &headers, Some(&body), self.server.timeout());
        let (status, body) = asked.map_err(|why| unknown(why, &id))?;
        match status {
            200 => self.tell(&parse(&body)?),
            409 | 500.. => Err(unknown(problem(status, &body), &id)),
            _ => Err(problem(status, &body)),
        }
    }

    fn tell(&self, answer: &Value) -> Result<()> {
        let outcome = answer["outcome"].as_str().unwrap_or("?");
        if self.json {
            output::json(answer)?;
        } else if outcome == "done" {
            output::json(&answer["result"])?;
        }
        let what = match outcome {
            "done" => return Ok(()),
            "refused" => "it was refused, for good",
            "failed" => "it can never work",
            _ => "every try failed, and it was given up",
        };
        let reason = answer["reason"].as_str().unwrap_or("no reason was given").to_owned();
        let fix = "nothing has taken effect; to try again, ask under a new id";
        Err(CliError::of(anyhow!("{reason}"), what, fix))
    }
}

fn unknown(why: anyhow::Error, id: &str) -> anyhow::Error {
    let why = why.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let fix = format!("ask again with --id {id}: it takes effect once");
    CliError::of(anyhow!("{why}"), "there is no answer, and it may take effect all the same", fix)
}

fn parameters(given: &[String]) -> Result<Map<String, Value>> {
    let mut read = Map::new();
    for text in given {
        let wrong = |why: &str| {
            let what = format!("{text:?} is no parameter");
            CliError::of(anyhow!("{why}"), what, "write it as name=value")
        };
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no = in it"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if read.insert(name.to_owned(), value).is_some() {
            return Err(wrong("it is given twice"));
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
