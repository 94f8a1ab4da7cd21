//! `jeton tx`: runs transactions, lists those in doubt and resolves one that is stuck.

mod list;
mod resolve;
mod run;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::resolve::Resolve;
use self::run::Run;
use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, escaped, problem_of};

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
    common: Common,
}

/// Show a transaction: its result, and the decision of each attempt
#[derive(Args)]
struct Show {
    /// Id of the transaction
    id: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl TxCommand {
    pub fn run(&self) -> Result<()> {
        match &self.action {
            Action::Run(run) => run.run(),
            Action::List(list) => {
                let found = in_doubt(&list.common.server)?;
                if list.common.json { output::json(&found) } else { list::print(&found) }
            }
            Action::Show(show) => {
                let Common { json, server } = &show.common;
                let status = ask(server, "GET", &path(&show.id))?;
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
    ask(server, "GET", "/v1/transactions")
}

fn ask(server: &ServerArgs, method: &str, path: &str) -> Result<Value> {
    match Http(server).ask(method, path, None)? {
        (200, body) => parse(&body),
        (status, body) => Err(problem(status, &body)),
    }
}

fn parse(body: &str) -> Result<Value> {
    serde_json::from_str(body).map_err(|error| anyhow!("the response of the server is not JSON: {error}"))
}

/// The error of a transaction request, with what to do.
fn problem(status: u16, body: &str) -> anyhow::Error {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let kind = problem["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
    let fix = match kind {
        "unknown-procedure" => "see [procedures] in the configuration file of the server",
        "not-found" => {
            "declare [databases] and [procedures] in the configuration file of the server: see docs/transactions.md"
        }
        "bad-parameters" => {
            "write them as name=value; [procedures] in the configuration file of the server declares them"
        }
        "id-invalid" => "create an id with jeton id",
        "id-mismatch" => "use a new id for a new transaction; the old id has its result",
        "id-expired" => "nothing was executed now; check the databases for an earlier execution",
        "id-from-future" => "set the clock of the machine that creates ids",
        _ => return problem_of(status, body),
    };
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    CliError::of(anyhow!("{}", text("detail")), text("title"), fix)
}
