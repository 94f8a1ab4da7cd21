//! Why the engine could not be opened.

use tokio_postgres::Error;

/// Why the engine could not be opened, or its tables could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("invalid connection URL of PostgreSQL: {0}")]
    Url(String),
    /// The server could not be reached, or refused the connection.
    #[error("cannot connect to PostgreSQL: {0}")]
    Unreachable(String),
    /// The server does not encrypt, or its certificate is not trusted.
    #[error("no encrypted connection to PostgreSQL: {0}")]
    Tls(String),
    #[error("the tables of the registers are missing; create them with `create_schema`")]
    NoSchema,
    /// The tables were created by another version of the program.
    #[error(
        "the tables of the registers have version {found}, this program needs version {expected}; `jeton init` \
         upgrades those of an earlier version"
    )]
    Version { found: i32, expected: i32 },
    /// The server may lose acknowledged transactions, or is read-only.
    #[error("this server cannot store registers: {0}")]
    Unfit(String),
    /// The server returned an error.
    #[error("PostgreSQL refused: {0}")]
    Refused(String),
}

impl OpenError {
    pub(crate) fn from_statement(error: &Error) -> Self {
        match error.as_db_error() {
            Some(error) => Self::Refused(format!("{} ({})", error.message(), error.code().code())),
            None => Self::Unreachable(with_source(error)),
        }
    }
}

/// The error with its source.
pub(crate) fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
