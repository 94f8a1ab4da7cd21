//! Errors of a server, with what the user can do.

use std::io;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli_error::CliError;

/// An error of the Redis protocol: code and text.
pub fn failure_of(text: &str) -> anyhow::Error {
    let (code, reason) = text.split_once(' ').unwrap_or((text, ""));
    let (what, fix) = match code {
        "NOAUTH" => ("the server requires a token", "set JETON_TOKEN, or name a file with --token-file"),
        "WRONGPASS" => (
            "the token is not valid on this server",
            "list the tokens: jeton token list; create one: jeton token create",
        ),
        "NOPERM" => ("the token does not have this right", "list the rights: jeton token list"),
        "NOTABLE" => (
            "the table does not exist",
            "create it: jeton table create NAME; list the tables: jeton table list",
        ),
        "IDFORMAT" => (
            "the table does not accept this id format",
            "show its formats: jeton table show NAME; then give an id with --id",
        ),
        "IDREQUIRED" => ("the table requires an id on every write", "give one with --id"),
        "IDMISMATCH" => (
            "the id was used for another operation",
            "use a new id for a new operation; the old id was applied",
        ),
        "IDEXPIRED" => (
            "the id is older than the window of the table",
            "nothing was applied now; check the counter for an earlier application. Longer window: jeton table set NAME \
             --dated-window",
        ),
        "IDFUTURE" => {
            ("the id is dated ahead of the server", "set the clock of the machine that creates ids")
        }
        "BUSY" => {
            ("the server is overloaded, or the rate limit of the token is exceeded", "retry with the same id")
        }
        "MISCONF" => ("the server cannot write to its disk", "free disk space there; run jeton doctor there"),
        "STORAGE" => (
            "the server failed to read or write its storage",
            "retry with the same id; the cause is in the log of the server",
        ),
        "QUOTA" => (
            "the quota of the token is used up",
            "use existing counters, or create a token with a higher limit",
        ),
        "LOADING" => ("the server is starting or stopping", "retry with the same id"),
        "WRONGTYPE" => ("the key does not contain a counter", "choose another key"),
        _ => ("the server rejected the request", "see jeton --help"),
    };
    let reason = if reason.is_empty() { code } else { reason };
    CliError::of(anyhow!("{reason}"), what, fix)
}

/// A broken connection.
pub fn lost(error: &io::Error) -> anyhow::Error {
    let reason = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => anyhow!("timeout"),
        // As text: `main` must not take it for a closed standard output.
        _ => anyhow!("{error}"),
    };
    CliError::of(
        reason,
        "the connection to the server was lost",
        "check that it is running, and that --resp and --http are its addresses (TLS with --tls-ca)",
    )
}

/// A problem details response (RFC 9457).
pub fn problem_of(status: u16, body: &str) -> anyhow::Error {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let what = text("title").unwrap_or_else(|| format!("the server responded with status {status}"));
    let reason = text("detail").unwrap_or_else(|| format!("status {status}"));
    let fix = match status {
        401 => "set JETON_TOKEN, or name a file with --token-file".into(),
        403 => "list the rights of the token: jeton token list".into(),
        404 => "list the tables: jeton table list".into(),
        429 | 503 => "retry later".into(),
        _ => text("type").map_or("see jeton --help".into(), |kind| format!("read {kind} on the server")),
    };
    CliError::of(anyhow!("{reason}"), what, fix)
}
