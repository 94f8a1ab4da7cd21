//! `jeton tx resolve`: resolves a transaction that is stuck.

use std::io::{self, BufRead};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Value, json};

use super::{in_doubt, list, path};
use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, json_of};

/// Time limit of the server, which waits up to 30 s per branch.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(300);

/// Resolve a transaction that is stuck
///
/// The decision is written to the decision store (registers or a database) before any branch is changed.
/// Without a recorded decision the attempt is aborted and its branches are rolled back; a recorded decision
/// is executed and cannot be changed. This command therefore never makes databases differ: at worst it costs
/// a running coordinator one attempt. Never commit or roll back a branch in the database by hand: that can
/// make databases differ.
#[derive(Args)]
pub struct Resolve {
    /// Id of the transaction
    id: String,

    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,

    /// Print JSON
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
        let timeout = self.server.timeout().max(RESOLVE_TIMEOUT);
        let (status, body) = Http(&self.server).ask_within("POST", &path, Some("{}"), timeout)?;
        self.print(&json_of(status, &body)?)
    }

    fn confirm(&self) -> Result<()> {
        let mut found = in_doubt(&self.server)?;
        let id = self.id.strip_suffix(":0").unwrap_or(&self.id).to_ascii_lowercase();
        if let Some(branches) = found["branches"].as_array_mut() {
            branches.retain(|branch| branch["id"] == json!(id));
        }
        list::print(&found)?;
        output::aside(&format!("Resolve the transaction {}? [y/N]", self.id));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        let fix = "answer y, or use --yes in scripts";
        Err(CliError::of(anyhow!("the user did not confirm"), "nothing was done", fix))
    }

    fn print(&self, resolved: &Value) -> Result<()> {
        let branches = resolved["branches"].as_array().cloned().unwrap_or_default();
        if self.json {
            output::json(resolved)?;
        } else if branches.is_empty() {
            output::line("No reachable database has a prepared branch of it.")?;
        }
        let mut open = Vec::new();
        for branch in &branches {
            let text = |name: &str| branch[name].as_str().unwrap_or("?");
            let ended = match text("outcome") {
                "commit" => "committed, as decided",
                "abort" => "rolled back",
                _ => {
                    open.push(format!("{}: {}", text("database"), text("why")));
                    "still prepared"
                }
            };
            if !self.json {
                output::line(&format!("{}: {ended}", text("database")))?;
            }
        }
        for database in list::items(resolved, "unreachable") {
            let text = list::unreachable(database);
            if !self.json {
                output::line(&text)?;
            }
            open.push(text);
        }
        if open.is_empty() {
            return Ok(());
        }
        let fix = "check the database; the servers keep trying: jeton tx list";
        Err(CliError::of(anyhow!("{}", open.join("; ")), "branches may still be prepared", fix))
    }
}
