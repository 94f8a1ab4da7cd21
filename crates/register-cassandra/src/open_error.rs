//! Why the engine could not be opened.

/// Why the engine could not be opened, or its tables could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("invalid URL of Cassandra: {0}")]
    Url(String),
    /// No node, or fewer than a majority, could be reached, or the connection was refused.
    #[error("cannot connect to Cassandra: {0}")]
    Unreachable(String),
    #[error("the tables of the registers are missing; create them with `create_schema`")]
    NoSchema,
    /// The tables were created by another version of the program.
    #[error("the tables of the registers have version {found}, this program needs version {expected}")]
    Version { found: i32, expected: i32 },
    /// A node may lose acknowledged writes, or decide a register twice.
    #[error("this cluster cannot store registers: {0}")]
    Unfit(String),
    /// A server returned an error.
    #[error("Cassandra refused: {0}")]
    Refused(String),
}
