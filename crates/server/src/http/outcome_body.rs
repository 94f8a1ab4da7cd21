//! What became of an operation, as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode};
use jeton_core::{Durability, Mode, OperationResult, PartitionId, Table};
use jeton_engine::OperationOutcome;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Problem, ProblemBody};
use super::{date, json};

/// The header that marks an answer given before.
pub const REPLAYED: &str = "idempotency-replayed";

/// What became of an operation.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeBody {
    /// Whether the changes were made, now or when the id first came. False if a bound refused them: then they never will be under this id.
    pub applied: bool,
    /// Whether the id was known: then this is the first answer again.
    pub replayed: bool,
    /// True if a probabilistic table takes the id for known. Nothing changed, and the first answer is not kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probably_seen: bool,
    /// The partition whose log has it.
    pub partition: u16,
    /// Its slot in that log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// When it was decided, on the clock of the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub time: Option<String>,
    /// Whether a known id is certainly known: exact or probabilistic.
    pub mode: &'static str,
    /// Whether a crash may take it back: strict (no) or relaxed (the last moments before the crash).
    pub durability: &'static str,
}

/// What became of an operation on one counter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "value": 7, "value_text": "7", "applied": true, "replayed": false, "partition": 12, "slot": 42,
    "time": "2026-11-16T07:40:12.000Z", "mode": "exact", "durability": "strict"
}))]
pub struct Outcome {
    /// The counter after the operation; null if the cell is empty or holds bytes, or if the answer is not kept.
    pub value: Option<i64>,
    /// The same as text, for programs whose numbers end at 2^53.
    pub value_text: Option<String>,
    /// What became of it.
    #[serde(flatten)]
    pub fate: OutcomeBody,
}

/// What became of an operation of several changes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "values": [7, 1], "values_text": ["7", "1"], "applied": true, "replayed": false, "partition": 12, "slot": 42,
    "time": "2026-11-16T07:40:12.000Z", "mode": "exact", "durability": "strict"
}))]
pub struct Outcomes {
    /// The counters after the operation, one for each change; null for cells that are empty or hold bytes.
    pub values: Vec<Option<i64>>,
    /// The same as text, for programs whose numbers end at 2^53.
    pub values_text: Vec<Option<String>>,
    /// What became of it.
    #[serde(flatten)]
    pub fate: OutcomeBody,
}

/// What became of one operation of a list: its outcome with status 200, or a problem.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ReplySource {
    /// It was answered.
    Answered {
        /// 200.
        status: u16,
        /// What became of it.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// It was not done.
    Refused(ProblemBody),
}

/// What became of the operations of a list, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeList {
    /// One for each operation.
    pub results: Vec<ReplySource>,
}

/// How a table's mode is called.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exact => "exact",
        Mode::Probabilistic { .. } => "probabilistic",
    }
}

/// How a table's durability is called.
pub fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Strict => "strict",
        Durability::Relaxed => "relaxed",
    }
}

impl OutcomeBody {
    fn new(table: &Table, partition: PartitionId, answer: Option<&OperationResult>) -> Self {
        let settings = table.settings();
        Self {
            applied: answer.is_some_and(|answer| answer.applied),
            replayed: false,
            probably_seen: answer.is_none(),
            partition: partition.0,
            slot: answer.map(|answer| answer.slot),
            time: answer.map(|answer| date::format(answer.millis)),
            mode: mode(settings.mode),
            durability: durability(settings.durability),
        }
    }

    /// Of an answer that is remembered.
    pub fn remembered(table: &Table, partition: PartitionId, answer: &OperationResult) -> Self {
        Self { replayed: true, ..Self::new(table, partition, Some(answer)) }
    }

    fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let replayed = matches!(reply, OperationOutcome::Replayed(_));
        Self { replayed, ..Self::new(table, partition, answer(reply)) }
    }

    fn respond(&self, body: &impl Serialize) -> Response<Body> {
        let mut response = json::response(StatusCode::OK, body);
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

fn answer(reply: &OperationOutcome) -> Option<&OperationResult> {
    match reply {
        OperationOutcome::Fresh(answer) | OperationOutcome::Replayed(answer) => Some(answer),
        OperationOutcome::ProbablySeen => None,
    }
}

fn text(value: &Option<i64>) -> Option<String> {
    value.map(|value| value.to_string())
}

impl Outcome {
    /// Of an operation on one cell.
    pub fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let value = answer(reply).and_then(|answer| answer.values.as_slice().first().copied().flatten());
        Self { value, value_text: text(&value), fate: OutcomeBody::of(table, partition, reply) }
    }

    /// As a response.
    pub fn respond(&self) -> Response<Body> {
        self.fate.respond(self)
    }
}

impl Outcomes {
    /// Of an operation of several changes.
    pub fn of(table: &Table, partition: PartitionId, reply: &OperationOutcome) -> Self {
        let values = answer(reply).map(|answer| answer.values.as_slice().to_vec()).unwrap_or_default();
        let values_text = values.iter().map(text).collect();
        Self { values, values_text, fate: OutcomeBody::of(table, partition, reply) }
    }

    /// As a response.
    pub fn respond(&self) -> Response<Body> {
        self.fate.respond(self)
    }
}

impl From<Result<Outcome, Problem>> for ReplySource {
    fn from(result: Result<Outcome, Problem>) -> Self {
        match result {
            Ok(outcome) => Self::Answered { status: StatusCode::OK.as_u16(), outcome },
            Err(problem) => Self::Refused(problem.into_body()),
        }
    }
}
