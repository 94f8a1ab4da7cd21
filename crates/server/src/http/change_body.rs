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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    #[default]
    Add,
    Set,
    Reset,
    Delete,
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

/// A change of one cell.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"table": "clicks", "row": "page-7", "op": "add", "delta": 1, "id": "01890a5d-ac96-774b-bcce-b302099a8057"}))]
pub struct ChangeBody {
    /// The table; only where the path does not name it.
    pub table: Option<String>,
    /// The row, as text; only where the path does not name it.
    pub row: Option<String>,
    /// The row, as base64, if it is not text; only where the path does not name it.
    pub row_base64: Option<String>,
    /// The column, as family:qualifier; default: the unnamed column of the row.
    pub column: Option<String>,
    /// The kind of change; default: add. Only where the path does not name it.
    pub op: Option<ChangeKind>,
    /// For add: the number to add; may be negative.
    pub delta: Option<JsonInteger>,
    /// For add: if the sum would be below this, nothing is added, and the refusal is stored under the id.
    pub min: Option<JsonInteger>,
    /// For add: if the sum would be above this, nothing is added, and the refusal is stored under the id.
    pub max: Option<JsonInteger>,
    /// For set: the value.
    pub value: Option<JsonInteger>,
    /// For put: the bytes, as text.
    pub text: Option<String>,
    /// For put: the bytes, as base64 (RFC 4648, section 4).
    pub base64: Option<String>,
    /// The id of the operation, in a format of the table. A request of one change may have it in the header
    /// `Idempotency-Key` instead.
    pub id: Option<String>,
}

pub struct ParsedChange {
    pub change: Change,
    pub column: Column,
    pub id: Option<String>,
}

/// Parses a column; `None` is the unnamed column.
pub fn parse_column(text: Option<&[u8]>) -> Result<Column, Problem> {
    Ok(text.map(Column::parse).transpose()?.unwrap_or_default())
}

fn bytes(member: &str, base64: &str) -> Result<Vec<u8>, Problem> {
    STANDARD.decode(base64).map_err(|error| Problem::bad_json(format!("`{member}` is not base64: {error}")))
}

impl ChangeBody {
    pub fn kind(&self) -> ChangeKind {
        self.op.unwrap_or_default()
    }

    fn row(&self) -> Result<Vec<u8>, Problem> {
        match (&self.row, &self.row_base64) {
            (Some(row), None) => Ok(row.as_bytes().to_vec()),
            (None, Some(row)) => bytes("row_base64", row),
            _ => Err(Problem::bad_json("send the row either as `row` or as `row_base64`")),
        }
    }

    fn parse(self) -> Result<ParsedChange, Problem> {
        let verb = self.kind();
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
            ChangeKind::Add => {
                let delta = self.delta.ok_or_else(|| missing("delta"))?.0;
                match [self.min, self.max].map(|bound| bound.map(|bound| bound.0)) {
                    [None, None] => Change::Add(delta),
                    [min, max] => Change::AddWithin { delta, min, max },
                }
            }
            ChangeKind::Set => Change::Set(self.value.ok_or_else(|| missing("value"))?.0),
            ChangeKind::Reset => Change::Reset,
            ChangeKind::Delete => Change::Delete,
            ChangeKind::Put => match (self.text, self.base64) {
                (Some(text), None) => Change::Put(text.into_bytes().into()),
                (None, Some(base64)) => Change::Put(bytes("base64", &base64)?.into()),
                _ => return Err(Problem::bad_json("send the bytes either as `text` or as `base64`")),
            },
        };
        let column = parse_column(self.column.as_deref().map(str::as_bytes))?;
        Ok(ParsedChange { change, column, id: self.id })
    }

    /// The change of a request whose path has the cell and the kind.
    pub fn parse_as(mut self, kind: ChangeKind) -> Result<ParsedChange, Problem> {
        let is_there =
            [self.table.is_some(), self.row.is_some(), self.row_base64.is_some(), self.op.is_some()];
        let members = ["table", "row", "row_base64", "op"].into_iter().zip(is_there);
        if let Some((member, _)) = members.into_iter().find(|(_, is_there)| *is_there) {
            return Err(Problem::bad_json(format!("the path has table, row and op: omit `{member}`")));
        }
        self.op = Some(kind);
        self.parse()
    }

    pub fn take_table(&mut self) -> Result<String, Problem> {
        self.table.take().ok_or_else(|| Problem::bad_json("missing member `table`"))
    }

    pub fn resolve(self, request: &RequestContext, table: &Table) -> Result<(Cell, ParsedChange), Problem> {
        let row = self.row()?;
        let parsed = self.parse()?;
        Ok((request.service().engine.cell(table, &row, &parsed.column)?, parsed))
    }
}
