//! A loaded procedure and its execution.

use std::collections::BTreeMap;

use bytes::Bytes;
use jeton_etx::{Branches, DecisionLocation, ProcedureResult, QueryResult, RequestId, ResourceError, Value};
use serde_json::{Map, Value as Json};

use crate::config::{ProcedureConfig, StepConfig};
use crate::guard::Guard;
use crate::operand::{Operand, Scope};
use crate::parameter::Parameter;
use crate::registry::Database;
use crate::statement::Statement;
use crate::value::json;

/// The parameter that every procedure has: the request id, for rows that refer to the request.
const REQUEST: &str = "request";

const STEPS_MAX: usize = 64;

/// A loaded procedure.
#[derive(Debug, Clone)]
pub struct Procedure {
    pub decision_location: DecisionLocation,
    parameters: Vec<Parameter>,
    steps: Vec<Step>,
    returns: Vec<(String, Operand)>,
    /// The numbers of its databases, each once.
    databases: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Step {
    database: u8,
    statement: Statement,
    guards: Vec<Guard>,
}

impl Procedure {
    pub fn read(declared: &ProcedureConfig, databases: &[Database]) -> Result<Self, String> {
        let mut parameters = Vec::new();
        for (name, parameter) in &declared.parameters {
            if name == REQUEST {
                return Err(format!(":{REQUEST} is reserved for the request id"));
            }
            let read = Parameter::read(name, parameter);
            parameters.push(read.map_err(|why| format!("parameter {name:?}: {why}"))?);
        }
        let mut names: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        names.push(REQUEST.to_owned());
        if declared.steps.is_empty() || declared.steps.len() > STEPS_MAX {
            return Err(format!("a procedure has 1 to {STEPS_MAX} steps, not {}", declared.steps.len()));
        }
        let mut step_names: Vec<String> = Vec::new();
        let mut steps = Vec::new();
        for (at, step) in declared.steps.iter().enumerate() {
            let place = if step.name.is_empty() {
                format!("step {}", at + 1)
            } else {
                format!("step {:?}", step.name)
            };
            if !step.name.is_empty() && step_names.contains(&step.name) {
                return Err(format!("{place}: another step has this name"));
            }
            step_names.push(step.name.clone());
            let scope = Scope { steps: &step_names, parameters: &names };
            steps.push(Step::read(step, databases, &scope).map_err(|why| format!("{place}: {why}"))?);
        }
        let scope = Scope { steps: &step_names, parameters: &names };
        let returns = declared.returns.iter().map(|(name, from)| {
            let operand = Operand::read(from, &scope).map_err(|why| format!("returns {name:?}: {why}"))?;
            Ok((name.clone(), operand))
        });
        let returns = returns.collect::<Result<_, String>>()?;
        let mut used: Vec<u8> = steps.iter().map(|step| step.database).collect();
        used.sort_unstable();
        used.dedup();
        let decision_location = decision_location(declared, databases, &used)?;
        Ok(Self { decision_location, parameters, steps, returns, databases: used })
    }

    /// Converts the parameters of a request, or returns why they are invalid.
    pub fn parameters(&self, given: &Map<String, Json>) -> Result<BTreeMap<String, Value>, String> {
        if let Some(unknown) =
            given.keys().find(|name| !self.parameters.iter().any(|known| known.name == **name))
        {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            return Err(format!("there is no parameter {unknown:?}; there are: {}", known.join(", ")));
        }
        let value = |parameter: &Parameter| {
            Ok((parameter.name.clone(), parameter.value(given.get(&parameter.name))?))
        };
        self.parameters.iter().map(value).collect()
    }

    /// Executes the steps in order, in branches.
    pub async fn run(
        &self,
        mut parameters: BTreeMap<String, Value>,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError> {
        let RequestId { session, sequence } = branches.request();
        parameters.insert(REQUEST.to_owned(), Value::Text(format!("{session:032x}:{sequence}")));
        branches.begin(&self.databases).await?;
        let mut done: Vec<QueryResult> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let given: Vec<Value> = step
                .statement
                .parameters
                .iter()
                .map(|name| parameters.get(name).cloned().unwrap_or(Value::Null))
                .collect();
            done.push(branches.execute(step.database, &step.statement.text, &given).await?);
            if let Some(broken) = step.guards.iter().find(|guard| !guard.holds(&done, &parameters)) {
                return Ok(ProcedureResult::Refused(Bytes::from(broken.otherwise.clone())));
            }
        }
        let members =
            self.returns.iter().map(|(name, from)| (name.clone(), json(from.value(&done, &parameters))));
        let answer = Json::Object(members.collect());
        Ok(ProcedureResult::Done(Bytes::from(answer.to_string())))
    }
}

impl Step {
    fn read(declared: &StepConfig, databases: &[Database], scope: &Scope<'_>) -> Result<Self, String> {
        let database = find(databases, &declared.database)?;
        let statement = Statement::read(&declared.run, database.dialect)?;
        if let Some(unknown) = statement.parameters.iter().find(|name| !scope.parameters.contains(*name)) {
            return Err(format!("there is no parameter {unknown:?}"));
        }
        let guards = declared.require.iter().map(|guard| Guard::read(&guard.that, &guard.otherwise, scope));
        Ok(Self { database: database.number, statement, guards: guards.collect::<Result<_, String>>()? })
    }
}

fn find<'a>(databases: &'a [Database], name: &str) -> Result<&'a Database, String> {
    databases.iter().find(|database| database.name == name).ok_or_else(|| {
        let known: Vec<&str> = databases.iter().map(|database| database.name.as_str()).collect();
        format!("there is no database {name:?}; there are: {}", known.join(", "))
    })
}

/// The decision location. A single database that can record decisions saves a vote and a register.
fn decision_location(
    declared: &ProcedureConfig,
    databases: &[Database],
    used: &[u8],
) -> Result<DecisionLocation, String> {
    match declared.decision_store.as_deref() {
        Some("registers") => return Ok(DecisionLocation::Registers),
        Some(name) => {
            let database = find(databases, name).map_err(|why| format!("decision_store: {why}"))?;
            return if !used.contains(&database.number) {
                Err(format!("decision_store: no step is in the database {name:?}"))
            } else if !database.keeps_decisions {
                Err(format!("decision_store: the database {name:?} cannot record decisions"))
            } else {
                Ok(DecisionLocation::Resource(database.number))
            };
        }
        None => {}
    }
    let only = match used {
        [only] => databases.iter().find(|database| database.number == *only && database.keeps_decisions),
        _ => None,
    };
    Ok(only.map_or(DecisionLocation::Registers, |database| DecisionLocation::Resource(database.number)))
}
