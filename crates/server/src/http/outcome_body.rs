//! The JSON of the outcome of an operation.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use jeton_core::rfc3339;
use jeton_core::{OperationResult, PartitionId, Table};
use jeton_engine::OperationOutcome;
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use super::problem::{Problem, ProblemBody};
use super::settings::{durability_name, mode_name};

/// The header that marks a replayed response.
pub const REPLAYED: &str = "idempotency-replayed";

#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeBody {
    /// Whether the changes were applied, now or on the first request with this id. False if a bound refused
    /// them, which is final for this id.
    pub applied: bool,
    /// Whether the id was known: this is then the first result.
    pub replayed: bool,
    /// True if a probabilistic table reports the id as known. Nothing changed, and the first result is not
    /// stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probably_seen: bool,
    /// The partition of the log entry.
    pub partition: u16,
    /// The slot of the log entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// Time of the operation, by the clock of the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub time: Option<String>,
    /// The mode of the table: exact, or probabilistic (a new id may be reported as known).
    pub mode: &'static str,
    /// The durability of the table: strict, or relaxed (a crash may lose the operations of the last
    /// relaxed_interval).
    pub durability: &'static str,
}

/// The outcome of an operation on one counter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "value": 7, "value_text": "7", "applied": true, "replayed": false, "partition": 12, "slot": 42,
    "time": "2026-11-16T07:40:12.000Z", "mode": "exact", "durability": "strict"
}))]
pub struct Outcome {
    /// The counter after the operation; null if the cell is empty or contains bytes, or if the
    /// result is not stored.
    pub value: Option<i64>,
    /// The same as text, for clients whose numbers end at 2^53.
    pub value_text: Option<String>,
    #[serde(flatten)]
    pub details: OutcomeBody,
}

/// The outcome of an operation of several changes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "values": [7, 1], "values_text": ["7", "1"], "applied": true, "replayed": false, "partition": 12, "slot": 42,
    "time": "2026-11-16T07:40:12.000Z", "mode": "exact", "durability": "strict"
}))]
pub struct Outcomes {
    /// The counters after the operation, one for each change; null for cells that are empty or contain
    /// bytes.
    pub values: Vec<Option<i64>>,
    /// The same as text, for clients whose numbers end at 2^53.
    pub values_text: Vec<Option<String>>,
    #[serde(flatten)]
    pub details: OutcomeBody,
}

/// The result of one operation of a list: its outcome with status 200, or a problem.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OperationResponse {
    Answered {
        status: u16,
        #[serde(flatten)]
        outcome: Outcome,
    },
    Refused(ProblemBody),
}

/// The results of the operations of a list, in its order.
#[derive(ToSchema)]
#[allow(dead_code, reason = "its JSON is written by OutcomeListText")]
pub struct OutcomeList {
    results: Vec<OperationResponse>,
}

/// The JSON of an [`OutcomeList`], to which results are added: their text needs a tenth of their memory.
#[derive(Default)]
pub struct OutcomeListText(Vec<u8>);

impl OutcomeListText {
    pub fn push(&mut self, outcome: Result<Outcome, Problem>) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"results\":[" } else { b"," });
        // Only maps with keys that are not strings fail, and no result has one.
        let _no_error = serde_json::to_writer(&mut self.0, &OperationResponse::from(outcome));
    }

    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub fn respond(mut self) -> Response {
        let end: &[u8] = if self.0.is_empty() { b"{\"results\":[]}" } else { b"]}" };
        self.0.extend_from_slice(end);
        json::response_with(StatusCode::OK, self.0)
    }
}

impl OutcomeBody {
    fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let (settings, result) = (table.settings(), result(reply));
        Self {
            applied: result.is_some_and(|result| result.applied),
            replayed: matches!(reply, OperationOutcome::Replayed(_)),
            probably_seen: result.is_none(),
            partition: partition.0,
            slot: result.map(|result| result.slot),
            time: result.map(|result| rfc3339::format(result.millis)),
            mode: mode_name(settings.mode),
            durability: durability_name(settings.durability),
        }
    }

    /// The response with a body that includes this.
    pub fn respond(&self, body: &impl Serialize) -> Response {
        let mut response = json::ok(body);
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

fn result(reply: &OperationOutcome) -> Option<&OperationResult> {
    match reply {
        OperationOutcome::Fresh(result) | OperationOutcome::Replayed(result) => Some(result),
        OperationOutcome::ProbablySeen => None,
    }
}

fn text(value: &Option<i64>) -> Option<String> {
    value.map(|value| value.to_string())
}

impl Outcome {
    pub fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let value = result(reply).and_then(|result| result.values.as_slice().first().copied().flatten());
        Self { value, value_text: text(&value), details: OutcomeBody::of(table, partition, reply) }
    }
}

impl Outcomes {
    pub fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let values = result(reply).map(|result| result.values.as_slice().to_vec()).unwrap_or_default();
        let values_text = values.iter().map(text).collect();
        Self { values, values_text, details: OutcomeBody::of(table, partition, reply) }
    }
}

impl From<Result<Outcome, Problem>> for OperationResponse {
    fn from(result: Result<Outcome, Problem>) -> Self {
        match result {
            Ok(outcome) => Self::Answered { status: StatusCode::OK.as_u16(), outcome },
            Err(problem) => Self::Refused(problem.into_body()),
        }
    }
}
