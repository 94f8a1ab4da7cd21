//! A branch in Jeton: additions that are collected until the vote.

use std::sync::Arc;

use async_trait::async_trait;
use jeton_etx::{Branch, Outcome, QueryResult, ResourceError, Value, Vote, Xid};
use serde_json::json;

use super::Inner;
use super::http::encoded;
use super::statement::{Addition, CounterRef, Statement};

pub struct JetonBranch {
    shared: Arc<Inner>,
    name: Xid,
    additions: Vec<Addition>,
    state: State,
}

enum State {
    /// Statements can be executed. Nothing was sent.
    Open,
    /// A statement failed. Nothing was sent.
    Failed(ResourceError),
    /// The prepare was sent: the branch may be prepared.
    Preparing,
    /// The branch has ended.
    Over,
}

impl JetonBranch {
    pub fn new(shared: Arc<Inner>, name: Xid) -> Self {
        Self { shared, name, additions: Vec::new(), state: State::Open }
    }

    async fn run(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        let settings = &self.shared.settings;
        let read = Statement::read(statement, parameters);
        match read.map_err(|why| settings.statement("bad-statement", why))? {
            Statement::Add(addition) => {
                self.additions.push(addition);
                Ok(QueryResult { rows: Vec::new(), count: 1 })
            }
            Statement::Get(place) => {
                let value = self.look(&place).await?;
                Ok(QueryResult { rows: vec![vec![("value".to_owned(), value)]], count: 1 })
            }
        }
    }

    /// The committed value of a counter plus the additions of this branch.
    async fn look(&self, place: &CounterRef) -> Result<Value, ResourceError> {
        let mut path = format!("/v1/tables/{}/counters/{}", encoded(&place.table), encoded(&place.counter));
        if let Some(column) = &place.column {
            path += &format!("?column={}", encoded(column));
        }
        let reply = self.shared.ask("GET", &path, None).await?;
        if reply.status != 200 {
            return Err(self.shared.failure(&reply));
        }
        let added = self.additions.iter().filter(|one| one.place == *place).map(|one| i128::from(one.amount));
        // A cell of bytes has no value; an empty cell counts as zero.
        let holds_bytes = reply.body["exists"] == true && reply.body["value"].is_null();
        let sum = i128::from(reply.body["value"].as_i64().unwrap_or(0)) + added.sum::<i128>();
        match i64::try_from(sum) {
            _ if holds_bytes => Ok(Value::Null),
            Ok(sum) => Ok(Value::Integer(sum)),
            Err(_) => Err(self
                .shared
                .settings
                .statement("overflow", "the counter would leave the range of 64-bit integers")),
        }
    }

    fn closed(&self) -> ResourceError {
        self.shared.settings.statement("closed", "the branch is not open any more")
    }
}

#[async_trait]
impl Branch for JetonBranch {
    fn name(&self) -> Xid {
        self.name
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<QueryResult, ResourceError> {
        match &self.state {
            State::Open => {}
            State::Failed(failure) => return Err(failure.clone()),
            State::Preparing | State::Over => return Err(self.closed()),
        }
        let executed = self.run(statement, parameters).await;
        if let Err(failure) = &executed {
            self.state = State::Failed(failure.clone());
        }
        executed
    }

    async fn vote(&mut self) -> Vote {
        match &self.state {
            State::Open => {}
            State::Failed(failure) => return Vote::No(failure.clone()),
            State::Preparing | State::Over => return Vote::No(self.closed()),
        }
        if self.additions.is_empty() {
            self.state = State::Over;
            return Vote::Unchanged;
        }
        self.state = State::Preparing;
        let body = json!({"operations": self.additions.iter().map(Addition::to_json).collect::<Vec<_>>()});
        let path = format!("/v1/branches/{}", encoded(&self.name.gid()));
        match self.shared.ask("PUT", &path, Some(&body)).await {
            Ok(reply) if reply.status == 200 && reply.body["state"] == "held" => Vote::Yes,
            Ok(reply) => Vote::No(self.shared.failure(&reply)),
            Err(failure) => Vote::No(failure),
        }
    }

    async fn commit_deciding(self: Box<Self>, _: &[u8]) -> Result<Vec<u8>, ResourceError> {
        Err(ResourceError::keeps_no_decisions(&self.shared.settings.name))
    }

    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
        match (&self.state, outcome) {
            (State::Over, _) | (State::Open | State::Failed(_), Outcome::Abort) => Ok(()),
            _ => self.shared.decide(&self.name, outcome).await,
        }
    }
}
