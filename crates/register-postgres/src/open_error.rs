//! Why the engine could not be opened.

use tokio_postgres::Error;

/// Why the engine could not be opened, or its tables not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What was given to connect with is none.
    #[error("not what PostgreSQL is connected to with: {0}")]
    Url(String),
    /// The database could not be reached, or refused us.
    #[error("cannot connect to PostgreSQL: {0}")]
    Unreachable(String),
    /// There are no tables of ours.
    #[error("the tables of the registers are not there; make them with `create_schema`")]
    NoSchema,
    /// The tables are those of another version of this program.
    #[error("the tables of the registers are of version {found}, this program needs version {expected}")]
    Version {
        /// Their version.
        found: i32,
        /// Ours.
        expected: i32,
    },
    /// The server does not keep what it acknowledges, or cannot write.
    #[error("this server cannot keep registers: {0}")]
    Unfit(String),
    /// The server said no.
    #[error("PostgreSQL refused: {0}")]
    Refused(String),
}

impl OpenError {
    /// From an answer to a statement.
    pub(crate) fn from_statement(error: &Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::Refused(format!("{} ({})", said.message(), said.code().code())),
            None => Self::Unreachable(with_source(error)),
        }
    }
}

/// The error, and what lies behind it.
pub(crate) fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
