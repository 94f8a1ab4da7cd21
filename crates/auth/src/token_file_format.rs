//! The JSON format of the token file, with a version.
//!
//! What must hold: a store round-trips, and an error names the position. Unknown fields are errors: a
//! mistyped `expires_ms` that is ignored would create a token that never expires.

use serde::{Deserialize, Serialize};

use crate::grant::{Grant, Limits, Rate, TableRule};
use crate::pattern::PatternError;
use crate::rights::RightsError;
use crate::secret_hash::SecretHash;
use crate::token::{TokenId, redacted};
use crate::token_store::{Entry, SecretEntry, TokenStore};

const VERSION: u32 = 1;

/// A malformed file. The message names the position and contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ParseError {
    /// The position: a line and a column, or the token and the field.
    pub place: String,
    pub why: String,
}

/// The version of the format, which is parsed first.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    tokens: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    name: String,
    tables: Vec<StoredRule>,
    server: bool,
    limits: StoredLimits,
    created_ms: u64,
    expires_ms: Option<u64>,
    secrets: Vec<StoredSecret>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRule {
    pattern: String,
    rights: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLimits {
    operations_per_second: Option<u32>,
    burst: Option<u32>,
    tables: Option<u64>,
    counters: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSecret {
    id: String,
    salt: String,
    sha256: String,
    created_ms: u64,
    until_ms: Option<u64>,
}

impl TokenStore {
    pub fn to_json(&self) -> String {
        let whole = Whole { version: VERSION, tokens: self.entries().iter().map(store).collect() };
        let text = serde_json::to_string_pretty(&whole);
        text.expect("a value of numbers, strings and lists serializes to JSON") + "\n"
    }

    pub fn from_json(text: &[u8]) -> Result<Self, ParseError> {
        // The version first: a later version may have fields that are errors in this one.
        let Head { version } = serde_json::from_slice(text).map_err(|error| syntax(&error))?;
        if version != VERSION {
            let why = format!("version {version} is not supported; this program supports {VERSION}");
            return Err(ParseError { place: "version".into(), why });
        }
        let whole: Whole = serde_json::from_slice(text).map_err(|error| syntax(&error))?;
        let names: Vec<String> =
            whole.tokens.iter().map(|token| redacted(&token.name).into_owned()).collect();
        let place = |number: usize| format!("tokens[{number}] ({:?})", names[number]);
        let mut entries = Vec::with_capacity(whole.tokens.len());
        for (number, token) in whole.tokens.into_iter().enumerate() {
            let at = |error: ParseError| ParseError { place: place(number) + "." + &error.place, ..error };
            entries.push(load(token).map_err(at)?);
        }
        Self::of(entries).map_err(|(number, why)| ParseError { place: place(number), why })
    }
}

fn syntax(error: &serde_json::Error) -> ParseError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let why = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    // The parser quotes unexpected values, which may contain a token.
    ParseError { place: format!("line {line}, column {column}"), why: redacted(why).into_owned() }
}

fn store(entry: &Entry) -> StoredToken {
    let grant = &entry.grant;
    let rule =
        |rule: &TableRule| StoredRule { pattern: rule.pattern.to_string(), rights: rule.rights.to_string() };
    let secret = |secret: &SecretEntry| StoredSecret {
        id: secret.id.to_string(),
        salt: hex(&secret.hashed.salt),
        sha256: hex(&secret.hashed.hash),
        created_ms: secret.created,
        until_ms: secret.until,
    };
    StoredToken {
        name: grant.name.clone(),
        tables: grant.tables.iter().map(rule).collect(),
        server: grant.server,
        limits: StoredLimits {
            operations_per_second: grant.limits.operations.map(|rate| rate.per_second),
            burst: grant.limits.operations.map(|rate| rate.burst),
            tables: grant.limits.tables,
            counters: grant.limits.counters,
        },
        created_ms: entry.created,
        expires_ms: grant.expires,
        secrets: entry.secrets.iter().map(secret).collect(),
    }
}

fn load(token: StoredToken) -> Result<Entry, ParseError> {
    let wrong = |place: String, why: String| ParseError { place, why };
    let mut tables = Vec::with_capacity(token.tables.len());
    for (number, rule) in token.tables.into_iter().enumerate() {
        let at = |field: &str| format!("tables[{number}].{field}");
        let pattern: Result<_, PatternError> = rule.pattern.parse();
        let pattern = pattern.map_err(|error| wrong(at("pattern"), error.to_string()))?;
        let rights: Result<_, RightsError> = rule.rights.parse();
        let rights = rights.map_err(|error| wrong(at("rights"), error.to_string()))?;
        tables.push(TableRule { pattern, rights });
    }
    let mut secrets = Vec::with_capacity(token.secrets.len());
    for (number, secret) in token.secrets.into_iter().enumerate() {
        let at = |field: &str| format!("secrets[{number}].{field}");
        let id = TokenId::parse(&secret.id).map_err(|_| {
            wrong(at("id"), "an id has 8 digits and lower case letters without i, l, o and u".into())
        })?;
        let salt = unhex(&secret.salt).map_err(|why| wrong(at("salt"), why))?;
        let hash = unhex(&secret.sha256).map_err(|why| wrong(at("sha256"), why))?;
        let hashed = SecretHash { salt, hash };
        secrets.push(SecretEntry { id, created: secret.created_ms, until: secret.until_ms, hashed });
    }
    let limits = token.limits;
    let operations = match (limits.operations_per_second, limits.burst) {
        (Some(per_second), burst) => Some(Rate { per_second, burst: burst.unwrap_or(per_second) }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(wrong("limits.burst".into(), "requires operations_per_second".into()));
        }
    };
    let limits = Limits { operations, tables: limits.tables, counters: limits.counters };
    let grant = Grant { name: token.name, tables, server: token.server, expires: token.expires_ms, limits };
    Ok(Entry { grant, created: token.created_ms, secrets })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let digits: Option<Vec<u8>> = text
        .bytes()
        // Lower case only, so that a value has one representation.
        .map(|byte| if byte.is_ascii_uppercase() { None } else { char::from(byte).to_digit(16) })
        .map(|digit| digit.and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    match digits {
        Some(digits) if digits.len() == 2 * N => {
            Ok(std::array::from_fn(|place| digits[2 * place] << 4 | digits[2 * place + 1]))
        }
        _ => Err(format!("{} hexadecimal digits are required", 2 * N)),
    }
}
