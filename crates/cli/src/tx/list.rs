//! What is in doubt, and what stands about a transaction, for people.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::output;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("?")
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The branches in doubt, and the databases that could not be asked.
pub fn print(found: &Value) -> Result<()> {
    let branches = items(found, "branches");
    if branches.is_empty() {
        output::line("Nothing is in doubt.")?;
    } else {
        let rows: Vec<[String; 8]> = branches.iter().map(row).collect();
        let heading = ["DATABASE", "ID", "TRY", "AGE", "DECIDED", "EXECUTOR", "SIGN", "LOCKS"];
        output::columns(&heading.map(String::from), &rows).iter().try_for_each(|line| output::line(line))?;
    }
    for silent in items(found, "silent") {
        output::line(&format!("{} could not be asked: {}", text(silent, "database"), text(silent, "why")))?;
    }
    Ok(())
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
        text(branch, "sign").to_owned(),
        if locks.is_empty() { "unknown".into() } else { locks.join("; ") },
    ]
}

/// How long ago, in its largest unit.
fn age(millis: u64) -> String {
    let seconds = Duration::from_millis(millis).as_secs();
    match seconds {
        0..120 => format!("{}.{}s", seconds, millis % 1000 / 100),
        120..7_200 => format!("{}min", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// What stands about a transaction.
pub fn print_story(story: &Value) -> Result<()> {
    let state = match text(story, "state") {
        "ended" => "it has its answer",
        "under-way" => "it is under way on this server",
        "undecided" => {
            "nothing is decided: it is not under way on this server, and may be on another, or never have been asked for"
        }
        "forgotten" => "forgotten: it was acknowledged, or is older than the window",
        other => other,
    };
    output::line(&format!("{}  {state}", text(story, "id")))?;
    let answer = &story["answer"];
    if !answer.is_null() {
        let told = if answer["result"].is_null() { &answer["reason"] } else { &answer["result"] };
        output::line(&format!("  answer  {}: {told}", text(answer, "outcome")))?;
    }
    for tried in items(story, "tries") {
        let place = text(tried, "kept_in");
        let by = tried["executor"].as_str().map_or(String::new(), |executor| format!(", by {executor}"));
        let databases: Vec<String> = items(tried, "databases").iter().map(Value::to_string).collect();
        let databases = if databases.is_empty() {
            String::new()
        } else {
            format!(", in the databases {}", databases.join(", "))
        };
        output::line(&format!(
            "  try {}   {}{by}{databases}; kept in {place}",
            tried["number"],
            text(tried, "decision")
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit_that_fits() {
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
