//! The client of a running server: addresses, token, trusted certificates, and what its errors mean.

mod error_text;
mod http;
mod resp;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_client::Tls;

pub use self::error_text::{attempt_error_of, error_of, json_of, problem_of};
pub use self::http::{Http, escaped};
pub use self::resp::{Resp, status_of};

use crate::cli_error::CliError;
use crate::config::DurationValue;

const RESP: &str = "127.0.0.1:6380";
const HTTP: &str = "127.0.0.1:6381";

/// Address and credentials of a running server.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Address of the server, Redis protocol; several nodes of a cluster are separated by commas [default:
    /// 127.0.0.1:6380] [env: JETON_RESP]
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<String>,

    /// Address of the server, HTTP [default: 127.0.0.1:6381] [env: JETON_HTTP]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,

    /// File with the token; a flag would expose it to other users of this machine [env: JETON_TOKEN, the
    /// token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Use TLS and trust the certificates in this PEM file; "system": those of the operating system [env:
    /// JETON_TLS_CA]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// How long to wait for a response
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: DurationValue,
}

/// Arguments of commands that print the response of a server.
#[derive(Args)]
pub struct ClientArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub server: ServerArgs,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

impl ServerArgs {
    /// RESP address.
    pub fn resp(&self) -> String {
        self.resp.clone().or_else(|| variable("JETON_RESP")).unwrap_or_else(|| RESP.into())
    }

    /// Uses this HTTP address unless a flag or variable names another.
    pub fn or_at(self, http: String) -> Self {
        let http = self.http.or_else(|| variable("JETON_HTTP")).or(Some(http));
        Self { http, ..self }
    }

    /// The HTTP server of a node, which has these URLs: encrypted if this one is.
    pub fn of_node(self, urls: &[serde_json::Value]) -> Option<Self> {
        let scheme = if self.ca_file().is_some() { "https://" } else { "http://" };
        let address = urls.iter().find_map(|url| url.as_str()?.strip_prefix(scheme))?;
        Some(Self { http: Some(address.to_owned()), ..self })
    }

    /// HTTP address.
    pub fn http(&self) -> String {
        self.http.clone().or_else(|| variable("JETON_HTTP")).unwrap_or_else(|| HTTP.into())
    }

    /// URL of the server, without a slash at the end.
    pub fn url(&self) -> String {
        let scheme = if self.ca_file().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.http())
    }

    fn ca_file(&self) -> Option<PathBuf> {
        self.tls_ca.clone().or_else(|| variable("JETON_TLS_CA").map(Into::into))
    }

    /// Trusted certificates; they enable TLS.
    pub fn tls(&self) -> Result<Option<Tls>> {
        let Some(file) = self.ca_file() else { return Ok(None) };
        let tls = match file.as_os_str() == "system" {
            true => Tls::system().map_err(anyhow::Error::from),
            false => {
                std::fs::read(&file).map_err(anyhow::Error::from).and_then(|pem| Ok(Tls::trusting(pem)?))
            }
        };
        tls.map(Some).map_err(|error| {
            let what = format!("the certificates in {} are not usable", file.display());
            CliError::of(error, what, "name a PEM file with the certificate of the server or of its issuer")
        })
    }

    pub fn timeout(&self) -> Duration {
        self.timeout.0
    }

    /// The token, if there is one.
    pub fn token(&self) -> Result<Option<String>> {
        let Some(file) = &self.token_file else { return Ok(variable("JETON_TOKEN")) };
        let text = std::fs::read_to_string(file).map_err(|error| {
            let what = format!("the token file {} cannot be read", file.display());
            CliError::of(error, what, "name the right file, or set JETON_TOKEN")
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// Checks a key: `table/row`, or a row of the default table.
pub fn check_key(key: &str) -> Result<()> {
    let bytes = key.split_once('/').map_or(key.len(), |(_, row)| row.len());
    if bytes == 0 || bytes > jeton_core::limits::ROW_BYTES_MAX {
        let reason = anyhow!("a row has 1 to {} bytes", jeton_core::limits::ROW_BYTES_MAX);
        return Err(CliError::of(
            reason,
            format!("{key:?} is not a valid key"),
            "write it as table/row, or as row",
        ));
    }
    Ok(())
}
