//! Parameters and results of statements.

/// A value of a type that all databases have.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL `NULL`.
    Null,
    /// A boolean.
    Bool(bool),
    Integer(i64),
    /// A floating-point number, which may be rounded.
    Float(f64),
    /// An exact decimal number, as the database formats it.
    Decimal(String),
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

/// A row of a result: column names and values, in the order of the statement.
pub type Row = Vec<(String, Value)>;

/// The result of a statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryResult {
    /// The returned rows.
    pub rows: Vec<Row>,
    /// The number of returned rows; for statements that return none, the number of matched, inserted or
    /// deleted rows.
    pub count: u64,
}

/// The placeholder syntax of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `$1`, `$2`: a number may occur several times.
    Numbered,
    /// `?`: one per parameter.
    Question,
}
