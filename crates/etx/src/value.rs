//! What goes into a statement and comes out of it.

/// A value, in what all databases have in common.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, which may be rounded.
    Float(f64),
    /// A number with a fraction, exact: as the database spells it.
    Decimal(String),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A row of what a statement returns: names of columns with their values, in the statement's order.
pub type Row = Vec<(String, Value)>;

/// What a statement did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryResult {
    /// What it returned.
    pub rows: Vec<Row>,
    /// How many rows it returned; if it returns none, how many it met: changed, or found to be as they should, made or removed.
    pub count: u64,
}

/// How a statement says where a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `$1`, `$2`, the same one as often as needed.
    Numbered,
    /// `?`, one for each place.
    Question,
}
