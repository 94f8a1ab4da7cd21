//! `jeton table`: creates, changes, shows and deletes tables.

use std::io::{self, BufRead};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli_error::CliError;
use crate::number_format;
use crate::output;
use crate::server_client::{ClientArgs, Http, ServerArgs, escaped, json_of, problem_of};

/// Create, change, show and delete tables
#[derive(Args)]
pub struct TableCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a table
    Create(Change),
    /// Change settings of a table; other settings stay, and ids already accepted keep their window
    Set(Change),
    /// Show settings and filters of a table
    Show(Show),
    /// List the tables
    List(ClientArgs),
    Delete(Delete),
}

#[derive(Args)]
struct Change {
    /// Name: 1 to 64 characters of a-z, 0-9, '.', '_', '-'
    name: String,

    /// Accepted id format: uuid7, ulid, sequenced, event or opaque; may be repeated [default: uuid7]
    #[arg(long = "format", value_name = "FORMAT")]
    formats: Vec<String>,

    /// How long dated ids are remembered, such as 24h; older ones are rejected [default: 24h]
    #[arg(long, value_name = "TIME")]
    dated_window: Option<String>,

    /// How long opaque ids are remembered after arrival [default: 10m]
    #[arg(long, value_name = "TIME")]
    opaque_window: Option<String>,

    /// How far an id may be dated ahead of the server's clock [default: 60s]
    #[arg(long, value_name = "TIME")]
    skew: Option<String>,

    /// How long a session of sequenced ids may be idle before it is dropped [default: 7d]
    #[arg(long, value_name = "TIME")]
    session_lease: Option<String>,

    /// exact: no false positives; probabilistic: a new id is dropped with probability --target [default:
    /// exact]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// False-positive probability of a probabilistic table
    #[arg(long, value_name = "P")]
    target: Option<f64>,

    /// strict: acknowledged operations survive a crash; relaxed: those of the last relaxed_interval may be
    /// lost [default: strict]
    #[arg(long, value_name = "WHEN")]
    durability: Option<String>,

    /// Policy for writes without an id: refuse, at-most-once, or resp-only (refused over HTTP) [default:
    /// refuse]
    #[arg(long, value_name = "WHAT")]
    without_id: Option<String>,

    /// Ids expected within a window: the initial size of the filter, which grows [default: 10000]
    #[arg(long, value_name = "N")]
    expected_ids: Option<u64>,

    /// Maximum memory of each filter, such as 64MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    memory_cap: Option<String>,

    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Args)]
struct Show {
    /// Name of the table
    name: String,

    #[command(flatten)]
    client: ClientArgs,
}

/// Delete a table with its counters
///
/// A deletion cannot be undone. Its ids never count in a later table of the same name; until that is certain
/// the name is reserved: for the skew of the table, and the window of its opaque ids.
#[derive(Args)]
struct Delete {
    /// Name of the table
    name: String,

    /// Do not ask for the name again
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    client: ClientArgs,
}

impl TableCommand {
    pub fn run(&self) -> Result<()> {
        match &self.action {
            Action::Create(change) => create(change),
            Action::Set(change) => set(change),
            Action::Show(show) => match find(&show.client.server, &show.name)? {
                Some(table) => print(&table, show.client.json),
                None => Err(missing(&show.name)),
            },
            Action::List(client) => list(client),
            Action::Delete(delete) => delete.run(),
        }
    }
}

fn path(name: &str) -> String {
    format!("/v1/tables/{}", escaped(name))
}

fn missing(name: &str) -> anyhow::Error {
    CliError::without_cause(
        format!("there is no table {name}"),
        format!("create it: jeton table create {name}; list the tables: jeton table list"),
    )
}

/// The table, if it exists.
pub fn find(server: &ServerArgs, name: &str) -> Result<Option<Value>> {
    match Http(server).ask("GET", &path(name), None)? {
        (404, _) => Ok(None),
        (status, body) => json_of(status, &body).map(Some),
    }
}

fn create(change: &Change) -> Result<()> {
    let server = &change.client.server;
    if find(server, &change.name)?.is_some() {
        return Err(CliError::without_cause(
            format!("the table {} already exists", change.name),
            format!("show it: jeton table show {0}; change it: jeton table set {0}", change.name),
        ));
    }
    put(change, Map::new())
}

fn set(change: &Change) -> Result<()> {
    let table = find(&change.client.server, &change.name)?.ok_or_else(|| missing(&change.name))?;
    let settings = table["settings"].as_object().cloned().unwrap_or_default();
    put(change, settings)
}

/// Sends the current settings with the changes.
fn put(change: &Change, mut settings: Map<String, Value>) -> Result<()> {
    let texts = [
        ("dated_window", &change.dated_window),
        ("opaque_window", &change.opaque_window),
        ("skew", &change.skew),
        ("session_lease", &change.session_lease),
        ("mode", &change.mode),
        ("durability", &change.durability),
        ("without_id", &change.without_id),
        ("memory_cap", &change.memory_cap),
    ];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
        settings.insert(name.into(), json!(text));
    }
    if !change.formats.is_empty() {
        settings.insert("formats".into(), json!(change.formats));
    }
    if let Some(expected) = change.expected_ids {
        settings.insert("expected_ids".into(), json!(expected));
    }
    if change.mode.as_deref() == Some("exact") {
        // It belongs to the probabilistic mode.
        settings.remove("target");
    }
    if let Some(target) = change.target {
        settings.insert("target".into(), json!(target));
    }
    let body = Value::Object(settings).to_string();
    let (status, body) = Http(&change.client.server).ask("PUT", &path(&change.name), Some(&body))?;
    print(&json_of(status, &body)?, change.client.json)
}

impl Delete {
    fn run(&self) -> Result<()> {
        if !self.yes {
            self.confirm()?;
        }
        let path = format!("{}?confirm={}", path(&self.name), escaped(&self.name));
        let (status, body) = Http(&self.client.server).ask("DELETE", &path, None)?;
        let deleted = json_of(status, &body)?;
        if self.client.json {
            return output::json(&deleted);
        }
        let until = words(&deleted["reserved_until"]);
        output::line(&format!("{} is deleted. Its name can be used again from {until} on.", self.name))
    }

    /// Shows what would be deleted, and asks for the name of the table.
    fn confirm(&self) -> Result<()> {
        // Without the parameter `confirm` the server states what it would delete.
        let (status, body) = Http(&self.client.server).ask("DELETE", &path(&self.name), None)?;
        if status != 428 {
            return Err(problem_of(status, &body));
        }
        let found: Value = serde_json::from_str(&body)?;
        let more = if found["more_counters"] == true { "more than " } else { "" };
        output::aside(&format!(
            "The table {0} has {more}{1} counters. A deletion cannot be undone.\nType the name of the table to delete it:",
            self.name, found["counters"]
        ));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if answer.trim() == self.name {
            return Ok(());
        }
        let fix = "type the name of the table, or use --yes in scripts";
        Err(CliError::of(anyhow!("the user did not confirm"), "nothing was deleted", fix))
    }
}

fn list(client: &ClientArgs) -> Result<()> {
    let (status, body) = Http(&client.server).ask("GET", "/v1/tables", None)?;
    let body = json_of(status, &body)?;
    if client.json {
        return output::json(&body);
    }
    let rows: Vec<[String; 5]> = body["tables"].as_array().into_iter().flatten().map(row).collect();
    let heading = ["NAME", "IDS", "REMEMBERED", "MODE", "FILTERS"].map(String::from);
    output::columns(&heading, &rows).iter().try_for_each(|line| output::line(line))
}

fn words(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn row(table: &Value) -> [String; 5] {
    let settings = &table["settings"];
    let bytes: u64 =
        ["dated", "opaque"].iter().filter_map(|kind| table["filters"][kind]["bytes"].as_u64()).sum();
    [
        words(&table["name"]),
        words(&settings["formats"]),
        format!("{} dated, {} opaque", words(&settings["dated_window"]), words(&settings["opaque_window"])),
        format!("{}, {}", words(&settings["mode"]), words(&settings["durability"])),
        number_format::bytes(bytes),
    ]
}

fn print(table: &Value, as_json: bool) -> Result<()> {
    if as_json {
        return output::json(table);
    }
    output::line(&words(&table["name"]))?;
    for (name, value) in table["settings"].as_object().into_iter().flatten() {
        output::line(&format!("  {name:<14} {}", words(value)))?;
    }
    for kind in ["dated", "opaque"] {
        let filter = &table["filters"][kind];
        let (Some(ids), Some(bytes)) = (filter["ids"].as_u64(), filter["bytes"].as_u64()) else { continue };
        let error = number_format::percent(filter["estimated_error"].as_f64().unwrap_or(0.0));
        let pressure = filter["pressure"]
            .as_str()
            .map_or(String::new(), |reason| format!("; above its target: {reason}"));
        output::line(&format!(
            "  {kind} ids: {} in {}, false-positive rate {error}{pressure}",
            number_format::grouped(ids),
            number_format::bytes(bytes)
        ))?;
    }
    Ok(())
}
