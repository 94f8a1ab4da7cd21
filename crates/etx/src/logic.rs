//! The business logic: what a request does in the databases, and what it answers.

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

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureCall {
    /// The procedure.
    pub procedure: String,
    /// Its parameters.
    pub parameters: Bytes,
}

/// What the requests do.
///
/// It may be run several times for one request, on several servers at once; of all that it does in databases, only one run's effects stay, and the answer of
/// that run is the answer. So it must do nothing elsewhere: no mail, no file, no other service. What has to happen outside is written
/// into a table of a branch, for another program to carry on.
#[async_trait]
pub trait ProcedureLogic: Send + Sync {
    /// Where decisions about requests of this procedure are kept. It must not change as long as requests of it are remembered; `None` if there is no such
    /// procedure.
    fn home(&self, procedure: &str) -> Option<DecisionLocation>;

    /// Whether this can be asked for at all; if not, why not. What cannot is not begun, and not remembered.
    fn check(&self, _request: &ProcedureCall) -> Result<(), String> {
        Ok(())
    }

    /// Does what is asked, in branches. An error that passes lets it be tried again; one that does not is the answer.
    async fn compute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError>;
}

/// The branches of an attempt: one in each database that the logic does something in.
pub struct Branches {
    attempt: AttemptId,
    resources: Arc<[Arc<dyn Resource>]>,
    begun: BTreeMap<u8, Box<dyn Branch>>,
}

impl Branches {
    pub(crate) fn new(attempt: AttemptId, resources: Arc<[Arc<dyn Resource>]>) -> Self {
        Self { attempt, resources, begun: BTreeMap::new() }
    }

    /// The id of what is asked for.
    pub fn request(&self) -> RequestId {
        self.attempt.request
    }

    /// Executes a statement in the database of this number.
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

    /// The branch in the database of this number, which is begun if need be. For statements in several databases at once, see [`Branches::begin`].
    async fn branch(&mut self, resource: u8) -> Result<&mut Box<dyn Branch>, ResourceError> {
        if !self.begun.contains_key(&resource) {
            self.begin(&[resource]).await?;
        }
        self.begun.get_mut(&resource).ok_or_else(|| unknown(resource))
    }

    /// Begins branches in several databases, at the same time.
    pub async fn begin(&mut self, resources: &[u8]) -> Result<(), ResourceError> {
        let mut beginning = FuturesUnordered::new();
        for number in resources.iter().copied().filter(|number| !self.begun.contains_key(number)) {
            let resource = self.resources.get(usize::from(number)).ok_or_else(|| unknown(number))?;
            let (resource, attempt) = (Arc::clone(resource), self.attempt);
            let begin = async move { (number, resource.begin(attempt).await) };
            beginning.push(AssertUnwindSafe(begin).catch_unwind());
        }
        let mut failed = None;
        while let Some(begun) = beginning.next().await {
            match begun {
                Ok((number, Ok(branch))) => drop(self.begun.insert(number, branch)),
                Ok((_, Err(failure))) => failed = Some(failure),
                // A panic in an adapter aborts this attempt only.
                Err(_) => {
                    let (resource, why) = ("an adapter".to_owned(), "it panicked".to_owned());
                    failed = Some(ResourceError::Passing { resource, why });
                }
            }
        }
        fault!("begun");
        failed.map_or(Ok(()), Err)
    }

    /// The branches of these databases, to work in at the same time.
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
        why: "there is no database of this number".to_owned(),
    }
}
