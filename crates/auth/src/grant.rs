//! A grant: what a token may do, how much of it, and until when.

use crate::limits::{BURST_MAX, NAME_BYTES_MAX, RATE_MAX, RULES_MAX};
use crate::pattern::Pattern;
use crate::rights::{Right, Rights};
use crate::token::looks_secret;

/// What a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The name by which people know the token. A token that is rotated keeps it.
    pub name: String,
    /// What it may do in which tables. A table that several rules match has the rights of all of them.
    pub tables: Vec<TableRule>,
    /// Whether it may administer the server: tokens, backups. Gives no right in any table.
    pub server: bool,
    /// From this moment on it may do nothing.
    pub expires: Option<u64>,
    /// How much it may do.
    pub limits: Limits,
}

/// What a token may do in the tables with names like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRule {
    /// Which tables.
    pub pattern: Pattern,
    /// What it may do there.
    pub rights: Rights,
}

/// How much a token may do. `None` is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Operations in a time.
    pub operations: Option<Rate>,
    /// Tables it may create.
    pub tables: Option<u64>,
    /// Counters it may create.
    pub counters: Option<u64>,
}

/// A rate of operations: within any `t` seconds at most `burst + per_second * t` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Operations a second in the long run.
    pub per_second: u32,
    /// Operations at once after a pause. Also the most in one request.
    pub burst: u32,
}

/// A grant that cannot be. The message names the field and says what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct GrantError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Grant {
    /// A grant of nothing, without end and without limits: the start for building one.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tables: Vec::new(),
            server: false,
            expires: None,
            limits: Limits::default(),
        }
    }

    /// Whether it gives the right in the table.
    pub fn allows(&self, table: &str, right: Right) -> bool {
        self.tables.iter().any(|rule| rule.rights.has(right) && rule.pattern.matches(table))
    }

    /// Whether there can be such a grant.
    pub fn check(&self) -> Result<(), GrantError> {
        let wrong = |field, why: String| Err(GrantError { field, why });
        check_name(&self.name)?;
        if self.tables.len() > RULES_MAX {
            return wrong("tables", format!("{} rules, at most {RULES_MAX} are possible", self.tables.len()));
        }
        if self.tables.iter().any(|rule| rule.rights.is_empty()) {
            return wrong("tables", "a rule without rights says nothing: leave it out".into());
        }
        if let Some(rate) = self.limits.operations {
            if !(1..=RATE_MAX).contains(&rate.per_second) {
                return wrong("operations_per_second", format!("it is between 1 and {RATE_MAX}"));
            }
            if !(1..=BURST_MAX).contains(&rate.burst) {
                return wrong("burst", format!("it is between 1 and {BURST_MAX}"));
            }
        }
        Ok(())
    }
}

/// Whether a token can have this name. The name is not repeated: somebody may have pasted a token.
pub(crate) fn check_name(name: &str) -> Result<(), GrantError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    let wrong = |why: String| Err(GrantError { field: "name", why });
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(plain) {
        return wrong(format!("1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '.', '_', '-', '@'"));
    }
    if looks_secret(name) {
        return wrong("this looks like a token, and names are for everybody to see".into());
    }
    Ok(())
}
