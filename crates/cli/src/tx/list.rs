//! Prints branches in doubt and the status of a transaction.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::output;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("?")
}

pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Prints the branches in doubt and the unreachable databases.
pub fn print(found: &Value) -> Result<()> {
    let branches = items(found, "branches");
    if branches.is_empty() {
        output::line("Nothing is in doubt.")?;
    } else {
        let rows: Vec<[String; 8]> = branches.iter().map(row).collect();
        let heading = ["DATABASE", "ID", "ATTEMPT", "AGE", "DECISION", "COORDINATOR", "STATUS", "LOCKS"];
        output::columns(&heading.map(String::from), &rows).iter().try_for_each(|line| output::line(line))?;
    }
    for database in items(found, "unreachable") {
        output::line(&unreachable(database))?;
    }
    Ok(())
}

/// A line about an unreachable database.
pub fn unreachable(database: &Value) -> String {
    format!("{} is unreachable: {}", text(database, "database"), text(database, "why"))
}

fn row(branch: &Value) -> [String; 8] {
    let locks: Vec<&str> = items(branch, "locks").iter().filter_map(Value::as_str).collect();
    [
        text(branch, "database").to_owned(),
        text(branch, "id").to_owned(),
        branch["attempt"].to_string(),
        branch["age_ms"].as_u64().map_or("unknown".into(), age),
        text(branch, "decision").to_owned(),
        text(branch, "executor").to_owned(),
        text(branch, "coordinator_status").to_owned(),
        if locks.is_empty() { "unknown".into() } else { locks.join("; ") },
    ]
}

/// Formats an age in the largest unit.
fn age(millis: u64) -> String {
    let seconds = Duration::from_millis(millis).as_secs();
    match seconds {
        0..120 => format!("{}.{}s", seconds, millis % 1000 / 100),
        120..7_200 => format!("{}min", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Prints the status of a transaction.
pub fn print_status(status: &Value) -> Result<()> {
    let state = match text(status, "state") {
        "ended" => "completed",
        "running" => "running on this server",
        "undecided" => "no decision: it may be running on another server, or was never requested",
        "forgotten" => "forgotten: acknowledged by the client, or older than the window",
        other => other,
    };
    output::line(&format!("{}  {state}", text(status, "id")))?;
    let response = &status["answer"];
    if !response.is_null() {
        let result = if response["result"].is_null() { &response["reason"] } else { &response["result"] };
        output::line(&format!("  result     {}: {result}", text(response, "outcome")))?;
    }
    for attempt in items(status, "tries") {
        let store = text(attempt, "decision_store");
        let by =
            attempt["executor"].as_str().map_or(String::new(), |coordinator| format!(", by {coordinator}"));
        let databases: Vec<String> = items(attempt, "databases").iter().map(Value::to_string).collect();
        let databases = if databases.is_empty() {
            String::new()
        } else {
            format!(", databases {}", databases.join(", "))
        };
        output::line(&format!(
            "  attempt {}  {}{by}{databases}; decision store: {store}",
            attempt["number"],
            text(attempt, "decision")
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit() {
        for (millis, expected) in [
            (0, "0.0s"),
            (1_250, "1.2s"),
            (119_999, "119.9s"),
            (120_000, "2min"),
            (7_200_000, "2h"),
            (172_800_000, "2d"),
        ] {
            assert_eq!(age(millis), expected);
        }
    }
}
