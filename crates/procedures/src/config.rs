//! A procedure as it is written in a file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `[procedures.NAME]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureConfig {
    /// What it is for.
    #[serde(default)]
    pub about: String,
    /// What it is asked with.
    #[serde(default)]
    pub parameters: BTreeMap<String, DeclaredParameter>,
    /// The database that keeps its decisions; "registers" for the registers.
    pub decided_in: Option<String>,
    /// What it does, in this order.
    pub steps: Vec<StepConfig>,
    /// The members of its answer, and where each comes from: `step.column`, `step.rows`, `:parameter`.
    #[serde(default)]
    pub returns: BTreeMap<String, String>,
}

/// A parameter: its kind, or its kind with bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum DeclaredParameter {
    /// Only the kind.
    Kind(String),
    /// The kind, and what it must be besides.
    Bounded(BoundedParameter),
}

/// A parameter with bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundedParameter {
    /// The kind: integer, number, text or boolean.
    pub kind: String,
    /// The least number.
    pub min: Option<i64>,
    /// The greatest number.
    pub max: Option<i64>,
    /// The most bytes of a text.
    pub bytes_max: Option<usize>,
    /// Whether it may be left out, or null.
    #[serde(default)]
    pub optional: bool,
}

/// `[[procedures.NAME.steps]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepConfig {
    /// What it is called in guards and in what is returned.
    #[serde(default)]
    pub name: String,
    /// Where.
    pub database: String,
    /// The statement. Parameters are in it as `:name`.
    pub run: String,
    /// What must be true after it.
    #[serde(default)]
    pub require: Vec<GuardConfig>,
}

/// What must be true after a step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardConfig {
    /// Such as `rows = 1` or `balance >= 0`.
    pub that: String,
    /// Why the request is refused if it is not.
    pub otherwise: String,
}
