//! The declaration of a procedure in a configuration file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `[procedures.NAME]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureConfig {
    /// A description for readers.
    #[serde(default)]
    pub about: String,
    /// The parameters by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, DeclaredParameter>,
    /// The database that records its decisions, or "registers".
    pub decision_store: Option<String>,
    /// The steps, in order of execution.
    pub steps: Vec<StepConfig>,
    /// The members of its response and their sources: `step.column`, `step.rows`, `:parameter`.
    #[serde(default)]
    pub returns: BTreeMap<String, String>,
}

/// A parameter: its type, or its type with bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum DeclaredParameter {
    /// The type without bounds.
    Kind(String),
    /// The type with bounds.
    Bounded(BoundedParameter),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundedParameter {
    /// The type: integer, number, text or boolean.
    pub kind: String,
    /// The minimum of a number.
    pub min: Option<i64>,
    /// The maximum of a number.
    pub max: Option<i64>,
    /// The maximum length of a text, in bytes.
    pub bytes_max: Option<usize>,
    /// Whether it may be missing or null.
    #[serde(default)]
    pub optional: bool,
}

/// `[[procedures.NAME.steps]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepConfig {
    /// The name of the step in guards and in the response.
    #[serde(default)]
    pub name: String,
    /// The name of the database.
    pub database: String,
    /// The statement. `:name` denotes a parameter.
    pub run: String,
    /// Conditions that must hold after the step.
    #[serde(default)]
    pub require: Vec<GuardConfig>,
}

/// A condition that must hold after a step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardConfig {
    /// The condition, such as `rows = 1` or `balance >= 0`.
    pub that: String,
    /// The message of the refusal if the condition does not hold.
    pub otherwise: String,
}
