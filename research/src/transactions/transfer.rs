//! The transfer that all protocols execute, and the duration of its statements.

use anyhow::{Context, Result};
use bytes::Bytes;
use jeton_etx::Value;

/// Accounts per database: enough that transfers rarely conflict.
pub(crate) const ACCOUNTS: u64 = 10_000;

/// From an account in PostgreSQL to one in MariaDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// How long the database sleeps in each branch, in place of work; 187 ms in the paper.
    pub(crate) sql_ms: u32,
}

/// The first statement in PostgreSQL: its parameters are amount and account.
pub(crate) const DEBIT: &str = "UPDATE jeton_research_account SET balance = balance - $1 WHERE id = $2";
/// The first statement in MariaDB.
pub(crate) const CREDIT: &str = "UPDATE jeton_research_account SET balance = balance + ? WHERE id = ?";

impl Transfer {
    pub(crate) const AMOUNT: i64 = 1;

    /// The second statement in PostgreSQL, if there is one.
    pub(crate) fn postgres_sleep(self) -> Option<String> {
        (self.sql_ms > 0).then(|| format!("SELECT 1 FROM pg_sleep({})", self.seconds()))
    }

    /// The second statement in MariaDB.
    pub(crate) fn mariadb_sleep(self) -> Option<String> {
        (self.sql_ms > 0).then(|| format!("SELECT SLEEP({})", self.seconds()))
    }

    fn seconds(self) -> f64 {
        f64::from(self.sql_ms) / 1_000.0
    }

    pub(crate) fn debit_parameters(self) -> [Value; 2] {
        [Value::Integer(Self::AMOUNT), Value::Integer(self.from)]
    }

    pub(crate) fn credit_parameters(self) -> [Value; 2] {
        [Value::Integer(Self::AMOUNT), Value::Integer(self.to)]
    }

    /// As parameters of a request.
    pub(crate) fn encode(self) -> Bytes {
        Bytes::from(format!("{} {} {}", self.from, self.to, self.sql_ms))
    }

    pub(crate) fn decode(parameters: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(parameters)?;
        let mut words = text.split(' ');
        let mut next = || words.next().context("a parameter is missing");
        Ok(Self { from: next()?.parse()?, to: next()?.parse()?, sql_ms: next()?.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_round_trips_and_sleeps_only_on_request() {
        let task = Transfer { from: 3, to: 9_999, sql_ms: 187 };
        assert_eq!(Transfer::decode(&task.encode()).unwrap(), task);
        assert_eq!(task.postgres_sleep().unwrap(), "SELECT 1 FROM pg_sleep(0.187)");
        assert_eq!(task.mariadb_sleep().unwrap(), "SELECT SLEEP(0.187)");
        assert_eq!(Transfer { sql_ms: 0, ..task }.postgres_sleep(), None);
        assert!(Transfer::decode(b"1 2").is_err());
    }
}
