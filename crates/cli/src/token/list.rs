//! Lists the tokens of a file. The file contains no secrets.

use anyhow::Result;
use jeton_auth::{Entry, TableRule, TokenFile};
use serde_json::{Value, json};

use crate::{date, id, output};

pub fn print(file: &TokenFile, as_json: bool) -> Result<()> {
    let tokens = file.read().map_err(|error| {
        super::failed(error, "the token file cannot be read", "create a token: jeton token create --help")
    })?;
    if as_json {
        let tokens: Vec<Value> = tokens.entries().iter().map(entry_json).collect();
        return output::json(&json!({ "tokens": tokens }));
    }
    if tokens.entries().is_empty() {
        return output::line(
            "There are no tokens, so no client has any right. Create one: jeton token create --help",
        );
    }
    let rows: Vec<[String; 5]> = tokens.entries().iter().map(row).collect();
    let heading = ["NAME", "ID", "MAY", "LIMITS", "EXPIRES"].map(String::from);
    for line in output::columns(&heading, &rows) {
        output::line(&line)?;
    }
    Ok(())
}

fn rule(rule: &TableRule) -> String {
    format!("{} in {}", rule.rights.to_string().replace(' ', "+"), rule.pattern)
}

fn row(entry: &Entry) -> [String; 5] {
    let grant = &entry.grant;
    let mut may: Vec<String> = grant.tables.iter().map(rule).collect();
    if grant.server {
        may.push("administer the server".into());
    }
    // Expired secrets are not listed.
    let now = id::millis();
    let ids = entry.secrets.iter().filter(|secret| entry.end_of(secret).is_none_or(|end| end > now));
    let ids: Vec<String> = ids.map(|secret| secret.id.to_string()).collect();
    let expires = match grant.expires {
        None => "never".into(),
        Some(moment) if moment <= now => format!("expired ({})", date::text(moment)),
        Some(moment) => date::text(moment),
    };
    let limits = [
        grant.limits.operations.map(|rate| format!("{}/s", rate.per_second)),
        grant.limits.tables.map(|tables| format!("{tables} tables")),
        grant.limits.counters.map(|counters| format!("{counters} counters")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    [
        grant.name.clone(),
        if ids.is_empty() { "-".into() } else { ids.join(",") },
        may.join(", "),
        if limits.is_empty() { "-".into() } else { limits.join(", ") },
        expires,
    ]
}

fn entry_json(entry: &Entry) -> Value {
    let grant = &entry.grant;
    let tables: Vec<Value> = grant
        .tables
        .iter()
        .map(|rule| json!({ "pattern": rule.pattern.to_string(), "rights": rule.rights.to_string() }))
        .collect();
    let secrets: Vec<Value> = entry
        .secrets
        .iter()
        .map(|secret| {
            json!({
                "id": secret.id.to_string(), "created": date::text(secret.created),
                "until": entry.end_of(secret).map(date::text),
            })
        })
        .collect();
    json!({
        "name": grant.name,
        "tables": tables,
        "server": grant.server,
        "created": date::text(entry.created),
        "expires": grant.expires.map(date::text),
        "operations_per_second": grant.limits.operations.map(|rate| rate.per_second),
        "burst": grant.limits.operations.map(|rate| rate.burst),
        "tables_max": grant.limits.tables,
        "counters_max": grant.limits.counters,
        "secrets": secrets,
    })
}
