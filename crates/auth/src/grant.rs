//! A grant: the rights, limits and expiry of a token.

use crate::limits::{BURST_MAX, NAME_BYTES_MAX, RATE_MAX, RULES_MAX};
use crate::pattern::Pattern;
use crate::rights::{Right, Rights};
use crate::token::looks_secret;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The name of the token. A rotation keeps it.
    pub name: String,
    /// Rights by table. If several rules match a table, their rights add up.
    pub tables: Vec<TableRule>,
    /// Whether the token grants administration of the server: tokens, backups. Grants no right in any table.
    pub server: bool,
    /// The token is valid before this time.
    pub expires: Option<u64>,
    pub limits: Limits,
}

/// Rights in the tables that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRule {
    pub pattern: Pattern,
    pub rights: Rights,
}

/// Rate limit and quotas of a token. `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub operations: Option<Rate>,
    /// Number of tables that the token may create.
    pub tables: Option<u64>,
    /// Number of counters that the token may create.
    pub counters: Option<u64>,
}

/// A rate of operations: within any `t` seconds at most `burst + per_second * t` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Operations per second in the long run.
    pub per_second: u32,
    /// Operations at once after a pause, and maximum in one request.
    pub burst: u32,
}

/// An invalid grant. The message names the field and the accepted values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct GrantError {
    pub field: &'static str,
    pub why: String,
}

impl Grant {
    /// A grant without rights, expiry and limits.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, limits) = (name.into(), Limits::default());
        Self { name, tables: Vec::new(), server: false, expires: None, limits }
    }

    pub fn allows(&self, table: &str, right: Right) -> bool {
        self.tables.iter().any(|rule| rule.rights.has(right) && rule.pattern.matches(table))
    }

    pub fn check(&self) -> Result<(), GrantError> {
        let wrong = |field, why: String| Err(GrantError { field, why });
        check_name(&self.name)?;
        if self.tables.len() > RULES_MAX {
            return wrong("tables", format!("{} rules, the maximum is {RULES_MAX}", self.tables.len()));
        }
        if self.tables.iter().any(|rule| rule.rights.is_empty()) {
            return wrong("tables", "a rule must have rights".into());
        }
        if let Some(rate) = self.limits.operations {
            if !(1..=RATE_MAX).contains(&rate.per_second) {
                return wrong("operations_per_second", format!("must be between 1 and {RATE_MAX}"));
            }
            if !(1..=BURST_MAX).contains(&rate.burst) {
                return wrong("burst", format!("must be between 1 and {BURST_MAX}"));
            }
        }
        Ok(())
    }
}

/// Checks the name of a token. The error does not repeat the name, which may be a token.
pub(crate) fn check_name(name: &str) -> Result<(), GrantError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    let wrong = |why: String| Err(GrantError { field: "name", why });
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(plain) {
        return wrong(format!("1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '.', '_', '-', '@'"));
    }
    if looks_secret(name) {
        return wrong("this looks like a token, and names are public".into());
    }
    Ok(())
}
