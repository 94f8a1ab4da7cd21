//! `jeton tx resolve`: ends a transaction that is stuck.

use std::io::{self, BufRead};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Value, json};

use super::{in_doubt, list, parse, path, problem};
use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs};

/// How long a server may take: for each branch it waits half a minute.
const RESOLVING_MAX: Duration = Duration::from_secs(300);

/// End a transaction that is stuck
///
/// No database is told anything before it is written in the registers (or in the database that keeps the decision) how the transaction ends. If nothing is written there yet,
/// it is written that the try is void, and its branches are rolled back; if something is, that is carried out, and this cannot change it. So nobody can make the databases
/// differ with this command, whenever it is used: the worst it does is to cost somebody who is still at work a try. Never commit or roll back a branch in the database
/// by hand: that can.
#[derive(Args)]
pub struct Resolve {
    /// The id of the transaction
    id: String,

    /// Do not ask whether it is meant
    #[arg(long)]
    yes: bool,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Resolve {
    pub fn run(&self) -> Result<()> {
        if !self.yes {
            self.confirm()?;
        }
        let path = format!("{}/resolve", path(&self.id));
        let patience = self.server.timeout().max(RESOLVING_MAX);
        let resolved = match Http(&self.server).ask_within("POST", &path, Some("{}"), patience)? {
            (200, body) => parse(&body)?,
            (status, body) => return Err(problem(status, &body)),
        };
        self.tell(&resolved)
    }

    fn confirm(&self) -> Result<()> {
        let mut found = in_doubt(&self.server)?;
        let id = self.id.strip_suffix(":0").unwrap_or(&self.id).to_ascii_lowercase();
        if let Some(branches) = found["branches"].as_array_mut() {
            branches.retain(|branch| branch["id"] == json!(id));
        }
        list::print(&found)?;
        output::aside(&format!("End the transaction {}? [y/N]", self.id));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        let fix = "answer y, or say --yes if nobody is there to be asked";
        Err(CliError::of(anyhow!("it was not confirmed"), "nothing was done", fix))
    }

    fn tell(&self, resolved: &Value) -> Result<()> {
        let branches = resolved["branches"].as_array().cloned().unwrap_or_default();
        if self.json {
            output::json(resolved)?;
        } else if branches.is_empty() {
            output::line("Nothing of it is prepared in a database that answers.")?;
        }
        let mut open = Vec::new();
        for branch in &branches {
            let text = |name: &str| branch[name].as_str().unwrap_or("?");
            let ended = match text("ended") {
                "commit" => "committed, as was decided",
                "abort" => "rolled back",
                _ => {
                    open.push(format!("{}: {}", text("database"), text("why")));
                    "still open"
                }
            };
            if !self.json {
                output::line(&format!("{}: {ended}", text("database")))?;
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        let fix = "see that the database answers; servers go on trying by themselves: jeton tx list";
        Err(CliError::of(anyhow!("{}", open.join("; ")), "not all of it has ended", fix))
    }
}
