//! A running server, as the commands that talk to it see it: where it is, what token to show, and what its errors mean.
//!
//! Without threads: a command asks and waits. What needs more (many connections, pipelines) is made of this.

mod error_text;
mod http;
mod resp;
mod transport;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;

pub use self::error_text::{failure_of, lost, problem_of};
pub use self::http::{Http, escaped};
pub use self::resp::{AddResult, Resp};

use crate::cli_error::CliError;
use crate::config::DurationValue;

const RESP: &str = "127.0.0.1:6380";
const HTTP: &str = "127.0.0.1:6381";

/// Where a running server is, and who asks.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Where the server speaks the Redis protocol [default: 127.0.0.1:6380] [env: JETON_RESP]
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<String>,

    /// Where the server speaks HTTP [default: 127.0.0.1:6381] [env: JETON_HTTP]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,

    /// A file with the token to show; a flag would show it to everybody on this machine [env: JETON_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Speak TLS, and trust the certificates in this PEM file [env: JETON_TLS_CA]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: DurationValue,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

impl ServerArgs {
    /// Where it speaks the Redis protocol.
    pub fn resp(&self) -> String {
        self.resp.clone().or_else(|| variable("JETON_RESP")).unwrap_or_else(|| RESP.into())
    }

    /// The same, at this address unless another was named.
    pub fn or_at(self, http: String) -> Self {
        let http = self.http.or_else(|| variable("JETON_HTTP")).or(Some(http));
        Self { http, ..self }
    }

    /// Where it speaks HTTP.
    pub fn http(&self) -> String {
        self.http.clone().or_else(|| variable("JETON_HTTP")).unwrap_or_else(|| HTTP.into())
    }

    /// Certificates to trust; then TLS is spoken.
    fn tls_ca(&self) -> Option<PathBuf> {
        self.tls_ca.clone().or_else(|| variable("JETON_TLS_CA").map(Into::into))
    }

    pub fn timeout(&self) -> Duration {
        self.timeout.0
    }

    /// The token to show, if there is one.
    fn token(&self) -> Result<Option<String>> {
        let Some(file) = &self.token_file else { return Ok(variable("JETON_TOKEN")) };
        let text = std::fs::read_to_string(file).map_err(|why| {
            let what = format!("the token in {} cannot be read", file.display());
            CliError::of(why, what, "name the file that holds it, or set JETON_TOKEN")
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// A key as `table/row`, or as a row of the default table.
pub fn check_key(key: &str) -> Result<()> {
    let bytes = key.split_once('/').map_or(key.len(), |(_, row)| row.len());
    if bytes == 0 || bytes > jeton_core::limits::ROW_BYTES_MAX {
        let why = anyhow!("a row has 1 to {} bytes", jeton_core::limits::ROW_BYTES_MAX);
        return Err(CliError::of(why, format!("{key:?} is no key"), "write it as table/row, or as row"));
    }
    Ok(())
}
