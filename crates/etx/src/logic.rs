//! Procedure logic: the statements of a request, and its answer.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use crate::{
    AttemptId, Branch, DecisionLocation, Participant, ProcedureResult, QueryResult, RequestId, Resource,
    ResourceError, Value,
};

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureCall {
    /// The name of the procedure.
    pub procedure: String,
    /// The parameters, as the client sent them.
    pub parameters: Bytes,
}

/// The implementation of the procedures.
///
/// A procedure may be executed several times for one request, also on several servers at once. Only the
/// changes of one execution are committed, and its answer is the answer. So a procedure must have no effects
/// outside of its branches: no mail, no file, no other service. Effects elsewhere are written to a table in a
/// branch, and another program carries them out.
#[async_trait]
pub trait ProcedureLogic: Send + Sync {
    /// Where decisions of this procedure are recorded; `None` if there is no such procedure. It must not
    /// change while decisions of the procedure are kept.
    fn decision_location(&self, procedure: &str) -> Option<DecisionLocation>;

    /// Validates a request. An invalid request is not executed, and nothing is recorded.
    fn check(&self, _request: &ProcedureCall) -> Result<(), String> {
        Ok(())
    }

    /// Executes a request in branches. After a transient error it is attempted again; any other error is the
    /// answer.
    async fn execute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError>;
}

/// The branches of an attempt: one in each database that the procedure uses.
pub struct Branches {
    attempt: AttemptId,
    resources: Arc<[Arc<dyn Resource>]>,
    begun: BTreeMap<u8, Box<dyn Branch>>,
}

impl Branches {
    pub(crate) fn new(attempt: AttemptId, resources: Arc<[Arc<dyn Resource>]>) -> Self {
        Self { attempt, resources, begun: BTreeMap::new() }
    }

    pub fn request(&self) -> RequestId {
        self.attempt.request
    }

    /// Executes a statement in a database.
    pub async fn execute(
        &mut self,
        resource: u8,
        statement: &str,
        parameters: &[Value],
    ) -> Result<QueryResult, ResourceError> {
        let executed = self.branch(resource).await?.execute(statement, parameters).await;
        fault!("executed");
        executed
    }

    /// The branch in a database; begins it if necessary. [`Branches::begin`] begins branches in several
    /// databases at once.
    async fn branch(&mut self, resource: u8) -> Result<&mut Box<dyn Branch>, ResourceError> {
        if !self.begun.contains_key(&resource) {
            self.begin(&[resource]).await?;
        }
        self.begun.get_mut(&resource).ok_or_else(|| unknown(resource))
    }

    /// Begins branches in several databases concurrently.
    pub async fn begin(&mut self, resources: &[u8]) -> Result<(), ResourceError> {
        let mut beginning = FuturesUnordered::new();
        for number in resources.iter().copied().filter(|number| !self.begun.contains_key(number)) {
            let resource = self.resources.get(usize::from(number)).ok_or_else(|| unknown(number))?;
            let (resource, attempt) = (Arc::clone(resource), self.attempt);
            let begin = async move { (number, resource.begin(attempt).await) };
            beginning.push(AssertUnwindSafe(begin).catch_unwind());
        }
        let mut error_found = None;
        while let Some(begun) = beginning.next().await {
            match begun {
                Ok((number, Ok(branch))) => drop(self.begun.insert(number, branch)),
                Ok((_, Err(error))) => error_found = Some(error),
                // A panic in an adapter aborts this attempt only.
                Err(_) => {
                    let (resource, why) = ("an adapter".to_owned(), "the adapter panicked".to_owned());
                    error_found = Some(ResourceError::Transient { resource, why });
                }
            }
        }
        fault!("begun");
        error_found.map_or(Ok(()), Err)
    }

    /// The branches of these databases, for concurrent statements.
    pub fn get_many(&mut self, resources: &[u8]) -> Vec<(u8, &mut Box<dyn Branch>)> {
        let chosen = self.begun.iter_mut().filter(|(number, _)| resources.contains(number));
        chosen.map(|(number, branch)| (*number, branch)).collect()
    }

    pub(crate) fn participants(&self) -> Vec<Participant> {
        let names = self.begun.values().map(|branch| branch.name());
        names.map(|name| Participant { resource: name.resource, connection: name.connection }).collect()
    }

    pub(crate) fn into_begun(self) -> BTreeMap<u8, Box<dyn Branch>> {
        self.begun
    }
}

fn unknown(resource: u8) -> ResourceError {
    ResourceError::Statement {
        resource: format!("database {resource}"),
        code: "unknown".to_owned(),
        why: "no database has this number".to_owned(),
    }
}
