//! `jeton tx`: asks for transactions, and says and ends what is stuck.

mod issue;
mod list;
mod resolve;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::issue::Issue;
use self::resolve::Resolve;
use crate::cli_error::CliError;
use crate::output;
use crate::server_client::{Http, ServerArgs, escaped, problem_of};

/// Ask for transactions over databases, see which are in doubt, end one that is stuck
#[derive(Args)]
pub struct TxCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Issue(Issue),
    List(List),
    Show(Show),
    Resolve(Resolve),
}

/// See which branches are prepared in the databases and hold locks, and what is known about each
///
/// A branch is the part of a transaction that is in one database. That some are listed is nothing unusual: those with the sign "working" are under way. Those of
/// a server that is dead are ended by the others within moments. What stays here has a reason, mostly a database or registers that do not answer.
#[derive(Args)]
struct List {
    #[command(flatten)]
    common: Common,
}

/// See what stands about a transaction: its answer, and what was decided about each try
#[derive(Args)]
struct Show {
    /// The id of the transaction
    id: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl TxCommand {
    pub fn run(&self) -> Result<()> {
        match &self.action {
            Action::Issue(issue) => issue.run(),
            Action::List(list) => {
                let found = in_doubt(&list.common.server)?;
                if list.common.json { output::json(&found) } else { list::print(&found) }
            }
            Action::Show(show) => {
                let Common { json, server } = &show.common;
                let story = ask(server, "GET", &path(&show.id))?;
                if *json { output::json(&story) } else { list::print_story(&story) }
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
    serde_json::from_str(body).map_err(|why| anyhow!("the server did not answer with JSON: {why}"))
}

/// A problem with a transaction, and what to do about it.
fn problem(status: u16, body: &str) -> anyhow::Error {
    let read: Value = serde_json::from_str(body).unwrap_or_default();
    let kind = read["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
    let fix = match kind {
        "unknown-procedure" => "see [procedures] in the configuration file of the server",
        "not-found" => {
            "declare [databases] and [procedures] in the configuration file of the server: see docs/transactions.md"
        }
        "bad-parameters" => {
            "give them as name=value; what it takes is in [procedures] of the server's configuration file"
        }
        "id-invalid" => "make one with jeton id",
        "id-mismatch" => "use a new id for a new transaction; the old one has its answer",
        "id-expired" => "nothing is done now; whether it was before, look into the databases",
        "id-from-future" => "set the clock of the machine that makes ids right",
        _ => return problem_of(status, body),
    };
    let text = |name: &str| read[name].as_str().unwrap_or_default().to_owned();
    CliError::of(anyhow!("{}", text("detail")), text("title"), fix)
}
