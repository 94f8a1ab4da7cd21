//! `jeton token`: creates, lists, rotates and revokes the tokens in a file. A running server reloads it
//! within a second.
//!
//! A secret is printed once, on standard output, when it is created; never on standard error, which may be
//! logged.

mod list;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use jeton_auth::{FileError, Grant, Pattern, RANDOM_BYTES, Rate, Right, Rights, TableRule, Token, TokenFile};
use serde_json::json;

use crate::cli_error::CliError;
use crate::config::{Config, DurationValue, Flags, SettingValue};
use crate::{date, id, output};

/// The default file.
const FILE: &str = "jeton-tokens.json";

/// Create, list, rotate and revoke tokens
///
/// Tokens grant rights on a server that is started with --tokens FILE. The file contains hashes, never
/// secrets: a lost token is replaced with jeton token rotate.
#[derive(Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    action: Action,

    /// Token file [default: the setting tokens, or jeton-tokens.json] [env: JETON_TOKENS]
    #[arg(long, value_name = "FILE", global = true)]
    tokens: Option<PathBuf>,

    /// Configuration file with the setting tokens [env: JETON_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    Create(Create),
    /// List the tokens: names, ids, rights, limits and expiry; no secrets
    List,
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Create a token; its secret is printed once, on standard output
#[derive(Args)]
struct Create {
    /// Name of the token; not secret
    #[arg(long)]
    name: String,

    /// Tables: a name, a prefix followed by *, or * for all; may be repeated
    #[arg(long = "table", value_name = "PATTERN")]
    tables: Vec<Pattern>,

    /// Right in these tables: read, add (change counters) or admin (create and change tables); may be
    /// repeated
    #[arg(long = "right", value_name = "RIGHT", value_parser = right)]
    rights: Vec<Right>,

    /// Right to administer the server: backups
    #[arg(long)]
    server: bool,

    /// Validity, such as 30d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<DurationValue>,

    /// Maximum operations per second [default: no limit]
    #[arg(long, value_name = "N")]
    rate: Option<u32>,

    /// Maximum burst of operations [default: one second's worth]
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,

    /// Maximum number of tables it may create [default: no limit]
    #[arg(long, value_name = "N")]
    tables_max: Option<u64>,

    /// Maximum number of counters it may create; deletions do not count back [default: no limit]
    #[arg(long, value_name = "N")]
    counters_max: Option<u64>,
}

/// Create a new secret of a token; the old one stays valid for a while
#[derive(Args)]
struct Rotate {
    /// Name of the token
    name: String,

    /// How long the old secret stays valid; 0s revokes it now
    #[arg(long, value_name = "TIME", default_value = "1h")]
    old_for: DurationValue,
}

/// Revoke a token with all its secrets, within a second
#[derive(Args)]
struct Revoke {
    /// Name of the token
    name: String,
}

fn right(text: &str) -> Result<Right, String> {
    let right = Right::ALL.into_iter().find(|right| right.name() == text);
    right.ok_or_else(|| "it is read, add or admin".into())
}

impl TokenCommand {
    pub fn run(&self) -> Result<()> {
        let file = TokenFile::new(self.file()?);
        match &self.action {
            Action::Create(create) => self.create(&file, create),
            Action::List => list::print(&file, self.json),
            Action::Rotate(rotate) => self.rotate(&file, rotate),
            Action::Revoke(revoke) => {
                file.edit(|tokens| tokens.remove(&revoke.name)).map_err(|error| {
                    failed(error, "the token was not revoked", "list the tokens: jeton token list")
                })?;
                if self.json {
                    return output::json(&json!({ "name": revoke.name, "revoked": true }));
                }
                output::line(&format!("{} is revoked.", revoke.name))
            }
        }
    }

    fn file(&self) -> Result<PathBuf> {
        if let Some(file) = &self.tokens {
            return Ok(file.clone());
        }
        let flags = Flags::of(&[]).with_config(self.config.clone());
        Ok(Config::load(&flags)?.settings.tokens.0.unwrap_or_else(|| FILE.into()))
    }

    fn create(&self, file: &TokenFile, create: &Create) -> Result<()> {
        let rules = match (create.tables.is_empty(), create.rights.is_empty()) {
            (true, true) if create.server => Vec::new(),
            (false, false) => {
                let rights = create.rights.iter().fold(Rights::NONE, |rights, right| rights.with(*right));
                let rule = |pattern: &Pattern| TableRule { pattern: pattern.clone(), rights };
                create.tables.iter().map(rule).collect()
            }
            _ => {
                return Err(CliError::without_cause(
                    "a token needs tables and rights",
                    "give both, as in: jeton token create --name app --table 'clicks*' --right add --right read",
                ));
            }
        };
        let now = id::millis();
        let mut grant = Grant::new(&create.name);
        grant.tables = rules;
        grant.server = create.server;
        grant.expires = create.expires.map(|validity| now.saturating_add(millis(validity)));
        grant.limits.operations =
            create.rate.map(|per_second| Rate { per_second, burst: create.burst.unwrap_or(per_second) });
        (grant.limits.tables, grant.limits.counters) = (create.tables_max, create.counters_max);
        let expires = grant.expires;
        let random = random()?;
        let token = file.edit(|tokens| tokens.add(grant, &random, now)).map_err(|error| {
            failed(error, "the token was not created", "list the tokens: jeton token list")
        })?;
        self.print(file, &create.name, &token, expires)
    }

    fn rotate(&self, file: &TokenFile, rotate: &Rotate) -> Result<()> {
        let (now, random) = (id::millis(), random()?);
        let old_until = now.saturating_add(millis(rotate.old_for));
        let token =
            file.edit(|tokens| tokens.rotate(&rotate.name, &random, now, old_until)).map_err(|error| {
                failed(error, "the token was not rotated", "list the tokens: jeton token list")
            })?;
        if old_until > now {
            output::aside(&format!(
                "The old secret stays valid for {}.",
                SettingValue::show(&rotate.old_for)
            ));
        }
        self.print(file, &rotate.name, &token, None)
    }

    /// The one place where a secret is printed.
    fn print(&self, file: &TokenFile, name: &str, token: &Token, expires: Option<u64>) -> Result<()> {
        if self.json {
            let id = token.id().to_string();
            let expires = expires.map(date::text);
            return output::json(
                &json!({ "name": name, "id": id, "token": token.reveal(), "expires": expires }),
            );
        }
        output::aside(&format!(
            "The secret of token {name} is printed once and stored nowhere. Use it as JETON_TOKEN, as the password of \
             redis-cli, or as Bearer token in HTTP.\nStart a server with it: jeton serve --tokens {}",
            file.path().display()
        ));
        output::line(&token.reveal())
    }
}

fn random() -> Result<[u8; RANDOM_BYTES]> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|error| {
        CliError::of(error, "the system returned no random bytes", "check that /dev/urandom is readable")
    })?;
    Ok(random)
}

fn millis(duration: DurationValue) -> u64 {
    u64::try_from(duration.0.as_millis()).unwrap_or(u64::MAX)
}

fn failed(error: FileError, what: &str, fix: &str) -> anyhow::Error {
    let fix = match &error {
        FileError::Store(_) => fix.to_owned(),
        FileError::System { .. } => "name a writable file with --tokens FILE".into(),
        FileError::Locked(_) => "try again in a moment".into(),
        FileError::Exposed { file, .. } => format!("chmod 600 {}", file.display()),
        _ => "repair the file, or name another with --tokens FILE".into(),
    };
    // The text of the error contains those of its sources.
    CliError::of(anyhow!("{error}"), what, fix)
}
