//! Request bodies that change counters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jeton_auth::Right;
use jeton_core::{Cell, Change, Column, Table};
use serde::Deserialize;
use utoipa::ToSchema;

use super::json::JsonInteger;
use super::problem::Problem;
use super::request_context::RequestContext;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Adds to a counter.
    #[default]
    Add,
    /// Sets a counter to a value.
    Set,
    /// Sets a counter to zero.
    Reset,
    /// Deletes the cell.
    Delete,
    /// Stores bytes in the cell.
    Put,
}

impl ChangeKind {
    pub const ALL: [Self; 5] = [Self::Add, Self::Set, Self::Reset, Self::Delete, Self::Put];

    /// The name in paths and bodies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Set => "set",
            Self::Reset => "reset",
            Self::Delete => "delete",
            Self::Put => "put",
        }
    }

    /// The required right. `add` suffices for additions only, because every other change can destroy the
    /// counts of other clients.
    pub const fn right(self) -> Right {
        match self {
            Self::Add => Right::Add,
            _ => Right::Admin,
        }
    }
}

/// Adds to a counter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"delta": 1, "id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct AddBody {
    /// The number to add; may be negative.
    pub delta: JsonInteger,
    /// The id of the operation, in a format of the table. Alternatively in the header `Idempotency-Key`.
    pub id: Option<String>,
    /// If the sum would be below this, nothing is added, and the refusal is stored under the id.
    pub min: Option<JsonInteger>,
    /// If the sum would be above this, nothing is added, and the refusal is stored under the id.
    pub max: Option<JsonInteger>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
}

/// Sets a counter to a value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"value": 100, "id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct SetBody {
    /// The value.
    pub value: JsonInteger,
    /// The id of the operation. Alternatively in the header `Idempotency-Key`.
    pub id: Option<String>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
}

/// Resets or deletes a counter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct PlainBody {
    /// The id of the operation. Alternatively in the header `Idempotency-Key`.
    pub id: Option<String>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
}

/// Stores bytes in a cell: either text or base64.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "blue", "id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct PutBody {
    /// The bytes, as text.
    pub text: Option<String>,
    /// The bytes, as base64 (RFC 4648, section 4).
    pub base64: Option<String>,
    /// The id of the operation. Alternatively in the header `Idempotency-Key`.
    pub id: Option<String>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
}

/// An operation in a list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"table": "clicks", "row": "page-7", "op": "add", "delta": 1, "id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct ChangeBody {
    /// The table; only where the path does not name it.
    pub table: Option<String>,
    /// The row, as text.
    pub row: Option<String>,
    /// The row, as base64, if it is not text.
    pub row_base64: Option<String>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
    /// The kind of change.
    #[serde(default)]
    pub op: ChangeKind,
    /// For add: the number to add.
    pub delta: Option<JsonInteger>,
    /// For add: the minimum of the sum.
    pub min: Option<JsonInteger>,
    /// For add: the maximum of the sum.
    pub max: Option<JsonInteger>,
    /// For set: the value.
    pub value: Option<JsonInteger>,
    /// For put: the bytes, as text.
    pub text: Option<String>,
    /// For put: the bytes, as base64.
    pub base64: Option<String>,
    /// The id of the operation, in a format of the table.
    pub id: Option<String>,
}

/// A change with its column and the text of its id.
pub struct ParsedChange {
    pub change: Change,
    pub column: Column,
    pub id: Option<String>,
}

impl ParsedChange {
    /// Parses the column.
    pub fn new(change: Change, column: Option<String>, id: Option<String>) -> Result<Self, Problem> {
        Ok(Self { change, column: parse_column(column.as_deref().map(str::as_bytes))?, id })
    }
}

/// Parses a column; `None` is the unnamed column.
pub fn parse_column(text: Option<&[u8]>) -> Result<Column, Problem> {
    Ok(text.map(Column::parse).transpose()?.unwrap_or_default())
}

/// An addition within optional bounds.
pub fn add(delta: JsonInteger, min: Option<JsonInteger>, max: Option<JsonInteger>) -> Change {
    match (min, max) {
        (None, None) => Change::Add(delta.0),
        (min, max) => {
            Change::AddWithin { delta: delta.0, min: min.map(|min| min.0), max: max.map(|max| max.0) }
        }
    }
}

/// Stores bytes that are given as text or as base64.
pub fn put(text: Option<String>, base64: Option<String>) -> Result<Change, Problem> {
    let bytes = match (text, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => bytes("base64", &base64)?,
        _ => return Err(Problem::bad_json("send the bytes either as `text` or as `base64`")),
    };
    Ok(Change::Put(bytes.into()))
}

fn bytes(member: &str, base64: &str) -> Result<Vec<u8>, Problem> {
    STANDARD.decode(base64).map_err(|error| Problem::bad_json(format!("`{member}` is not base64: {error}")))
}

impl ChangeBody {
    fn row(&self) -> Result<Vec<u8>, Problem> {
        match (&self.row, &self.row_base64) {
            (Some(row), None) => Ok(row.as_bytes().to_vec()),
            (None, Some(row)) => bytes("row_base64", row),
            _ => Err(Problem::bad_json("send the row either as `row` or as `row_base64`")),
        }
    }

    fn parse(self) -> Result<ParsedChange, Problem> {
        let verb = self.op;
        let members = [
            ("delta", self.delta.is_some(), verb == ChangeKind::Add),
            ("min", self.min.is_some(), verb == ChangeKind::Add),
            ("max", self.max.is_some(), verb == ChangeKind::Add),
            ("value", self.value.is_some(), verb == ChangeKind::Set),
            ("text", self.text.is_some(), verb == ChangeKind::Put),
            ("base64", self.base64.is_some(), verb == ChangeKind::Put),
        ];
        // A member without effect is an error of the client.
        if let Some((member, ..)) = members.iter().find(|(_, is_there, belongs)| *is_there && !belongs) {
            return Err(Problem::bad_json(format!(
                "`{member}` has no meaning for the op \"{}\"",
                verb.name()
            )));
        }
        let missing =
            |member: &str| Problem::bad_json(format!("the op \"{}\" needs `{member}`", verb.name()));
        let change = match verb {
            ChangeKind::Add => add(self.delta.ok_or_else(|| missing("delta"))?, self.min, self.max),
            ChangeKind::Set => Change::Set(self.value.ok_or_else(|| missing("value"))?.0),
            ChangeKind::Reset => Change::Reset,
            ChangeKind::Delete => Change::Delete,
            ChangeKind::Put => put(self.text, self.base64)?,
        };
        ParsedChange::new(change, self.column, self.id)
    }

    /// Removes the table, which is required.
    pub fn take_table(&mut self) -> Result<String, Problem> {
        self.table.take().ok_or_else(|| Problem::bad_json("missing member `table`"))
    }

    /// The cell in this table, and the change.
    pub fn resolve(self, request: &RequestContext, table: &Table) -> Result<(Cell, ParsedChange), Problem> {
        let row = self.row()?;
        let parsed = self.parse()?;
        Ok((request.service().engine.cell(table, &row, &parsed.column)?, parsed))
    }
}
