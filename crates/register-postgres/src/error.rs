//! What an error of the database means for whoever asked.

use jeton_register::Error as RegisterError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::open_error::{OpenError, with_source};

/// What became of a statement that has no answer.
#[derive(Debug)]
pub enum StatementError {
    /// It was rolled back, and may be asked again at once: two transactions were in each other's way.
    Again(String),
    /// It was rolled back. The connection is good.
    Refused(RegisterError),
    /// It may have happened; the connection is gone.
    Lost(String),
}

impl StatementError {
    pub fn of(error: &Error) -> Self {
        match error.as_db_error() {
            None => Self::Lost(with_source(error)),
            Some(said) => Self::said(said),
        }
    }

    fn said(said: &DbError) -> Self {
        let code = said.code().code();
        let text = format!("{} ({code})", said.message());
        // An error rolls back. What ends the session may come after the commit: while it waited for a standby.
        if said.parsed_severity() != Some(Severity::Error) || code.starts_with("08") {
            return Self::Lost(text);
        }
        match code {
            // Serialization failure, deadlock.
            "40001" | "40P01" => Self::Again(text),
            // No room on the disk.
            "53100" => Self::Refused(RegisterError::Full(text)),
            "53000" | "53200" | "53300" | "53400" => Self::Refused(RegisterError::Busy(text)),
            "XX001" | "XX002" => Self::Refused(RegisterError::Damaged(text)),
            _ if code.starts_with("54") => Self::Refused(RegisterError::TooLarge(text)),
            _ => Self::Refused(RegisterError::Unavailable(text)),
        }
    }
}

/// What is told to whoever asked when there is no connection: nothing has happened.
pub fn unreachable(error: &OpenError) -> RegisterError {
    RegisterError::Unavailable(error.to_string())
}

pub fn closed() -> RegisterError {
    RegisterError::Unavailable("the engine is closed".into())
}
