//! What a server's errors mean to whoever typed a command.

use std::io;

use anyhow::anyhow;
use serde_json::Value;

use crate::cli_error::CliError;

/// An error of the Redis protocol: a code and a text.
pub fn failure_of(text: &str) -> anyhow::Error {
    let (code, why) = text.split_once(' ').unwrap_or((text, ""));
    let (what, fix) = match code {
        "NOAUTH" => ("the server wants a token", "set JETON_TOKEN, or name a file with --token-file"),
        "WRONGPASS" => (
            "the token is not valid there",
            "see which are: jeton token list; or make one: jeton token create",
        ),
        "NOPERM" => ("the token does not give this right", "see what it may do: jeton token list"),
        "NOTABLE" => (
            "there is no such table",
            "make it: jeton table create NAME; see which there are: jeton table list",
        ),
        "IDFORMAT" => (
            "the table does not take such an id",
            "see which it takes: jeton table show NAME; then give one with --id",
        ),
        "IDREQUIRED" => ("the table wants an id on every write", "give one with --id"),
        "IDMISMATCH" => (
            "the id was used for another operation",
            "use a new id for a new operation; the old one has counted",
        ),
        "IDEXPIRED" => (
            "the id is older than the table remembers",
            "nothing was counted now; whether it was before, look at the counter. A longer window: jeton table set NAME --dated-window",
        ),
        "IDFUTURE" => {
            ("the id is dated ahead of the server", "set the clock of the machine that makes ids right")
        }
        "BUSY" => (
            "the server has too much to do, or the rate of the token is used up",
            "try again in a moment, with the same id",
        ),
        "MISCONF" => ("the server cannot store anything", "make room on its disk; see jeton doctor there"),
        "STORAGE" => (
            "something stored there could not be read or written",
            "try again with the same id; whoever runs the server finds the reason in its log",
        ),
        "QUOTA" => {
            ("the token may create no more", "count in what is there, or make a token with a higher limit")
        }
        "LOADING" => ("the server is starting or stopping", "try again in a moment, with the same id"),
        "WRONGTYPE" => ("the key holds something else than a counter", "choose another key"),
        _ => ("the server refused it", "see jeton --help"),
    };
    let why = if why.is_empty() { code } else { why };
    CliError::of(anyhow!("{why}"), what, fix)
}

/// A connection that broke.
pub fn lost(why: &io::Error) -> anyhow::Error {
    let why = match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => anyhow!("there was no answer in time"),
        // As text: a broken connection must not be taken for a closed output.
        _ => anyhow!("{why}"),
    };
    CliError::of(
        why,
        "the connection to the server was lost",
        "see that it runs, and that --resp and --http are its addresses (TLS with --tls-ca)",
    )
}

/// A problem over HTTP, as RFC 9457 writes it.
pub fn problem_of(status: u16, body: &str) -> anyhow::Error {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let what = text("title").unwrap_or_else(|| format!("the server answered {status}"));
    let why = text("detail").unwrap_or_else(|| format!("status {status}"));
    let fix = match status {
        401 => "set JETON_TOKEN, or name a file with --token-file".into(),
        403 => "see what the token may do: jeton token list".into(),
        404 => "see which tables there are: jeton table list".into(),
        429 | 503 => "try again in a moment".into(),
        _ => text("type").map_or("see jeton --help".into(), |kind| format!("read {kind} on the server")),
    };
    CliError::of(anyhow!("{why}"), what, fix)
}
