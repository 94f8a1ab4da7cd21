//! Maps errors of the database to errors of the register trait.

use jeton_register::Error as RegisterError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::open_error::{OpenError, with_source};

/// The outcome of a statement without a result.
#[derive(Debug)]
pub enum StatementError {
    /// It was rolled back because of a concurrent transaction, and can be repeated at once.
    Conflict(String),
    /// It was rolled back. The connection is usable.
    Refused(RegisterError),
    /// It may have been committed. The connection is lost.
    Lost(String),
}

impl StatementError {
    pub fn of(error: &Error) -> Self {
        match error.as_db_error() {
            None => Self::Lost(with_source(error)),
            Some(error) => Self::of_server(error),
        }
    }

    fn of_server(error: &DbError) -> Self {
        let code = error.code().code();
        let text = format!("{} ({code})", error.message());
        // An error rolls back. A message that ends the session may come after the commit, during the wait for
        // a standby.
        if error.parsed_severity() != Some(Severity::Error) || code.starts_with("08") {
            return Self::Lost(text);
        }
        match code {
            // Serialization failure, deadlock.
            "40001" | "40P01" => Self::Conflict(text),
            // The disk is full.
            "53100" => Self::Refused(RegisterError::Full(text)),
            "53000" | "53200" | "53300" | "53400" => Self::Refused(RegisterError::Busy(text)),
            "XX001" | "XX002" => Self::Refused(RegisterError::Damaged(text)),
            _ if code.starts_with("54") => Self::Refused(RegisterError::TooLarge(text)),
            _ => Self::Refused(RegisterError::Unavailable(text)),
        }
    }
}

/// Without a connection nothing was executed.
pub fn unreachable(error: &OpenError) -> RegisterError {
    RegisterError::Unavailable(error.to_string())
}

pub fn closed() -> RegisterError {
    RegisterError::Unavailable("the engine is closed".into())
}
