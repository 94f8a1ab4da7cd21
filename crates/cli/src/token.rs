//! `jeton token`: makes, lists, replaces and takes back the tokens in a file. A server that uses the file sees it within a second.
//!
//! What must hold: a secret is printed once, on standard output, when it is made; never on standard error, where logs are made of what is said.

mod list;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use jeton_auth::{FileError, Grant, Pattern, RANDOM_BYTES, Rate, Right, Rights, TableRule, Token, TokenFile};
use serde_json::json;

use crate::cli_error::CliError;
use crate::config::{Config, DurationValue, Flags, SettingValue};
use crate::{id, output};

/// The file if nobody names one.
const FILE: &str = "jeton-tokens.json";

/// Make, list, replace and take back tokens
///
/// Tokens say who may do what on a server that is started with --tokens FILE. The file has hashes, never secrets: a token
/// that is lost is replaced with jeton token rotate.
#[derive(Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    action: Action,

    /// The file of tokens [default: the setting tokens, or jeton-tokens.json] [env: JETON_TOKENS]
    #[arg(long, value_name = "FILE", global = true)]
    tokens: Option<PathBuf>,

    /// The configuration file that says where the tokens are [env: JETON_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    /// Tell it as JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    Create(Create),
    List,
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Make a token; its secret is printed once, on standard output
#[derive(Args)]
struct Create {
    /// The name by which people know it; it is no secret
    #[arg(long)]
    name: String,

    /// In which tables: a name, the beginning of names and *, or * for all; several times for several
    #[arg(long = "table", value_name = "PATTERN")]
    tables: Vec<Pattern>,

    /// What it may do in them: read, add (change counters), admin (make and change tables); several times for several
    #[arg(long = "right", value_name = "RIGHT", value_parser = right)]
    rights: Vec<Right>,

    /// It may also administer the server: backups
    #[arg(long)]
    server: bool,

    /// How long it is valid, as 30d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<DurationValue>,

    /// The most operations a second [default: no limit]
    #[arg(long, value_name = "N")]
    rate: Option<u32>,

    /// The most operations at once after a pause [default: as many as in a second]
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,

    /// The most tables it may create [default: no limit]
    #[arg(long, value_name = "N")]
    tables_max: Option<u64>,

    /// The most counters it may create; deleting one does not make room [default: no limit]
    #[arg(long, value_name = "N")]
    counters_max: Option<u64>,
}

/// Give a token a new secret; the old one works on for a while
#[derive(Args)]
struct Rotate {
    /// The name of the token
    name: String,

    /// How long the old secret works on; 0s ends it now
    #[arg(long, value_name = "TIME", default_value = "1h")]
    old_for: DurationValue,
}

/// Take a token back, with all its secrets; it stops working within a second
#[derive(Args)]
struct Revoke {
    /// The name of the token
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
                file.edit(|book| book.remove(&revoke.name)).map_err(|why| {
                    failed(why, "the token was not revoked", "see which there are: jeton token list")
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
                return Err(CliError {
                    what: "a token needs tables and what it may do in them".into(),
                    fix: "give both, as in: jeton token create --name app --table 'clicks*' --right add --right read"
                        .into(),
                }
                .into());
            }
        };
        let now = id::millis();
        let mut grant = Grant::new(&create.name);
        grant.tables = rules;
        grant.server = create.server;
        grant.expires = create.expires.map(|span| now.saturating_add(millis(span)));
        grant.limits.operations =
            create.rate.map(|per_second| Rate { per_second, burst: create.burst.unwrap_or(per_second) });
        (grant.limits.tables, grant.limits.counters) = (create.tables_max, create.counters_max);
        let expires = grant.expires;
        let random = random()?;
        let token = file
            .edit(|book| book.add(grant, &random, now))
            .map_err(|why| failed(why, "the token was not made", "see which there are: jeton token list"))?;
        self.tell(file, &create.name, &token, expires)
    }

    fn rotate(&self, file: &TokenFile, rotate: &Rotate) -> Result<()> {
        let (now, random) = (id::millis(), random()?);
        let old_until = now.saturating_add(millis(rotate.old_for));
        let token = file.edit(|book| book.rotate(&rotate.name, &random, now, old_until)).map_err(|why| {
            failed(why, "the token has no new secret", "see which there are: jeton token list")
        })?;
        if old_until > now {
            output::aside(&format!(
                "The old secret works for another {}.",
                SettingValue::show(&rotate.old_for)
            ));
        }
        self.tell(file, &rotate.name, &token, None)
    }

    /// The one place where a secret is printed.
    fn tell(&self, file: &TokenFile, name: &str, token: &Token, expires: Option<u64>) -> Result<()> {
        if self.json {
            let id = token.id().to_string();
            let expires = expires.map(list::date);
            return output::json(
                &json!({ "name": name, "id": id, "token": token.reveal(), "expires": expires }),
            );
        }
        output::aside(&format!(
            "The token {name} is below, once: it is stored nowhere. Use it as JETON_TOKEN, as the password of redis-cli, or as \
             Bearer in HTTP.\nServe with it: jeton serve --tokens {}",
            file.path().display()
        ));
        output::line(&token.reveal())
    }
}

fn random() -> Result<[u8; RANDOM_BYTES]> {
    let mut random = [0; RANDOM_BYTES];
    id::chance(&mut random)?;
    Ok(random)
}

fn millis(span: DurationValue) -> u64 {
    u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)
}

fn failed(why: FileError, what: &str, fix: &str) -> anyhow::Error {
    let fix = match &why {
        FileError::Book(_) => fix.to_owned(),
        FileError::System { .. } => "name a file that you may write with --tokens FILE".into(),
        FileError::Locked(_) => "try again in a moment".into(),
        FileError::Exposed { file, .. } => format!("chmod 600 {}", file.display()),
        _ => "mend the file, or name another with --tokens FILE".into(),
    };
    // The chain of the error would say the same twice.
    CliError::of(anyhow!("{why}"), what, fix)
}
