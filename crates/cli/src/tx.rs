//! `jeton tx`: runs transactions, lists those in doubt and resolves one that is stuck.

mod list;
mod resolve;
mod run;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

use self::resolve::Resolve;
use self::run::Run;
use crate::output;
use crate::server_client::{ClientArgs, Http, ServerArgs, escaped, json_of};

/// Run transactions over databases, list those in doubt, resolve one that is stuck
#[derive(Args)]
pub struct TxCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    #[command(alias = "issue")]
    Run(Run),
    List(List),
    Show(Show),
    Resolve(Resolve),
}

/// List the prepared branches in the databases, with their decision and coordinator
///
/// A branch is the part of a transaction in one database. Prepared branches hold locks. Branches with the
/// sign "working" are in flight. Branches of a dead server are resolved by the other servers within seconds.
/// A branch that stays here is usually waiting for a database or for registers that do not respond.
#[derive(Args)]
struct List {
    #[command(flatten)]
    client: ClientArgs,
}

/// Show a transaction: its result, and the decision of each attempt
#[derive(Args)]
struct Show {
    /// Id of the transaction
    id: String,

    #[command(flatten)]
    client: ClientArgs,
}

impl TxCommand {
    pub fn run(&self) -> Result<()> {
        match &self.action {
            Action::Run(run) => run.run(),
            Action::List(list) => {
                let found = in_doubt(&list.client.server)?;
                if list.client.json { output::json(&found) } else { list::print(&found) }
            }
            Action::Show(show) => {
                let ClientArgs { json, server } = &show.client;
                let status = get(server, &path(&show.id))?;
                if *json { output::json(&status) } else { list::print_status(&status) }
            }
            Action::Resolve(resolve) => resolve.run(),
        }
    }
}

fn path(id: &str) -> String {
    format!("/v1/transactions/{}", escaped(id))
}

fn in_doubt(server: &ServerArgs) -> Result<Value> {
    get(server, "/v1/transactions")
}

fn get(server: &ServerArgs, path: &str) -> Result<Value> {
    let (status, body) = Http(server).ask("GET", path, None)?;
    json_of(status, &body)
}
