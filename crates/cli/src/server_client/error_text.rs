//! Errors of a server, with what the user can do.

use anyhow::{Result, anyhow};
use jeton_client::http::HttpError;
use jeton_client::{AttemptError, Error};
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
        "BUSY" => (
            "the server is overloaded, or the rate limit of the token is exceeded",
            "nothing was changed; retry later",
        ),
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

/// An operation that failed.
pub fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Refused(error) => failure_of(&error.message),
        Error::Expired { message, .. } | Error::Busy { message } => failure_of(&message),
        Error::Unreachable { last } | Error::Unknown { last, .. } => attempt_error_of(&last),
        Error::Invalid(reason) => CliError::of(anyhow!(reason), "the request is invalid", "see jeton --help"),
        other => anyhow!("{other}"),
    }
}

/// An attempt that got no response, or no usable one.
pub fn attempt_error_of(error: &AttemptError) -> anyhow::Error {
    match error {
        AttemptError::Server(error) => failure_of(&error.message),
        AttemptError::Connect { server, reason } => no_server(server, "--resp", reason),
        AttemptError::Untrusted { server, reason } => untrusted(server, reason),
        other => lost(other.to_string()),
    }
}

/// A request over HTTP that got no response.
pub fn http_error_of(error: &HttpError, address: &str) -> anyhow::Error {
    match error {
        HttpError::Connect(reason) => no_server(address, "--http", reason),
        HttpError::Untrusted(reason) => untrusted(address, reason),
        other => lost(other.to_string()),
    }
}

/// `flag` names the address.
fn no_server(address: &str, flag: &str, reason: &str) -> anyhow::Error {
    let fix = format!("start one (jeton serve), or name its address with {flag} ADDRESS (TLS with --tls-ca)");
    CliError::of(anyhow!("{reason}"), format!("no server responds at {address}"), fix)
}

fn untrusted(address: &str, reason: &str) -> anyhow::Error {
    CliError::of(
        anyhow!("{reason}"),
        format!("the certificate of the server at {address} is not trusted"),
        "name the certificate of the server or of its issuer with --tls-ca",
    )
}

/// A broken connection.
pub fn lost(reason: impl Into<String>) -> anyhow::Error {
    CliError::of(
        anyhow!(reason.into()),
        "the connection to the server was lost",
        "check that it is running, and that --resp and --http are its addresses (TLS with --tls-ca)",
    )
}

/// The body of a response, or the problem that it describes.
pub fn json_of(status: u16, body: &str) -> Result<Value> {
    if status >= 300 {
        return Err(problem_of(status, body));
    }
    serde_json::from_str(body).map_err(|error| anyhow!("the response of the server is not JSON: {error}"))
}

/// A problem details response (RFC 9457).
pub fn problem_of(status: u16, body: &str) -> anyhow::Error {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let what = text("title").unwrap_or_else(|| format!("the server responded with status {status}"));
    let reason = text("detail").unwrap_or_else(|| format!("status {status}"));
    let kind = text("type").unwrap_or_default();
    let fix = match (status, kind.rsplit('/').next().unwrap_or_default()) {
        (_, "unknown-procedure") => "see [procedures] in the configuration file of the server".into(),
        (_, "not-found") => {
            "declare [databases] and [procedures] in the configuration file of the server: see \
                             docs/transactions.md"
                .into()
        }
        (_, "bad-parameters") => {
            "write them as name=value; [procedures] in the configuration file of the server declares them"
                .into()
        }
        (_, "id-invalid") => "create an id with jeton id".into(),
        (_, "name-reserved") => "wait, or choose another name".into(),
        (_, "held") => "wait for the transaction; an operator lists them with jeton tx list".into(),
        (_, "id-mismatch") => "use a new id for a new transaction; the old id has its result".into(),
        (_, "id-expired") => "nothing was executed now; check the databases for an earlier execution".into(),
        (_, "id-from-future") => "set the clock of the machine that creates ids".into(),
        (401, _) => "set JETON_TOKEN, or name a file with --token-file".into(),
        (403, _) => "list the rights of the token: jeton token list".into(),
        (404, _) => "list the tables: jeton table list".into(),
        (429 | 503, _) => "retry later".into(),
        (_, "") => "see jeton --help".into(),
        _ => format!("read {kind} on the server"),
    };
    CliError::of(anyhow!("{reason}"), what, fix)
}
