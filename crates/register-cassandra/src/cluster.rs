//! The session with the cluster: the choice of the coordinator, and results by the names of their columns.
//!
//! The requests of a log go to the same replica while it responds: two coordinators would outbid each other's
//! ballots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jeton_register::LogId;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::errors::{ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{
    LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy,
};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};
use tokio::time::{Instant, timeout};

use crate::address::Address;
use crate::failure::{Failure, blames_node};
use crate::open_error::OpenError;
use crate::options::Options;
use crate::statements::Statements;

/// How a node that does not respond is noticed, beside the timeouts of requests.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(12));

/// A value of a row.
pub type Value = Option<CqlValue>;

/// The key of the partition of a log.
pub fn log_key(log: LogId) -> [Value; 2] {
    [tiny(log.kind as u8), blob(&log.id.to_be_bytes())]
}

pub fn tiny(number: u8) -> Value {
    Some(CqlValue::TinyInt(number as i8))
}

pub fn big(number: u64) -> Value {
    Some(CqlValue::BigInt(number as i64))
}

pub fn blob(bytes: &[u8]) -> Value {
    Some(CqlValue::Blob(bytes.to_vec()))
}

pub fn text(text: &str) -> Value {
    Some(CqlValue::Text(text.to_owned()))
}

/// Connects, without the tables.
pub async fn connect(address: &Address, options: &Options) -> Result<Session, OpenError> {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(options.request_timeout))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&address.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(KEEPALIVE.0)
        .keepalive_timeout(KEEPALIVE.1)
        .keyspaces_to_fetch([&address.keyspace]);
    if let Some((user, password)) = &address.user {
        builder = builder.user(user, password);
    }
    let connected = timeout(options.connect_timeout * 2, builder.build()).await;
    let connected = connected.map_err(|_| OpenError::Unreachable("no response".into()))?;
    connected.map_err(|error| OpenError::Unreachable(error.to_string()))
}

/// What a request has to do with a place in the cluster.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    Log(LogId),
    Name(&'a str),
}

pub struct Cluster {
    session: Session,
    pub statements: Statements,
    keyspace: String,
    avoid_for: Duration,
    /// Nodes that did not respond, and until when they are avoided.
    avoided: Mutex<HashMap<u128, Instant>>,
}

impl Cluster {
    /// `address` must have the tables.
    pub async fn new(session: Session, address: &Address, options: &Options) -> Result<Self, OpenError> {
        let statements = Statements::prepare(&session, &address.keyspace).await;
        let statements = statements.map_err(|error| OpenError::Refused(error.to_string()))?;
        let (keyspace, avoid_for) = (address.keyspace.clone(), options.avoid_for);
        Ok(Self { session, statements, keyspace, avoid_for, avoided: Mutex::default() })
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The node for a request: the first replica that is connected and not avoided, in an order that the
    /// place determines.
    fn coordinator(&self, place: Place<'_>) -> Result<Arc<Node>, Failure> {
        let state = self.session.get_cluster_state();
        let mut nodes: Vec<Arc<Node>> = match place {
            Place::Log(log) => {
                let key = (log.kind as i8, log.id.to_be_bytes().to_vec());
                let replicas = state.get_endpoints(&self.keyspace, "register", &key).unwrap_or_default();
                replicas.into_iter().map(|(node, _)| node).collect()
            }
            Place::Name(_) => Vec::new(),
        };
        if nodes.is_empty() {
            nodes = state.get_nodes_info().to_vec();
            nodes.sort_by_key(|node| node.host_id);
            let name = match place {
                Place::Log(log) => log.id as usize,
                Place::Name(name) => {
                    name.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(byte))
                }
            };
            let first = name % nodes.len().max(1);
            nodes.rotate_left(first);
        }
        let now = Instant::now();
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|_, until| *until > now);
        let rank = |node: &Arc<Node>| (!node.is_connected(), avoided.contains_key(&node.host_id.as_u128()));
        let best = nodes.iter().min_by_key(|node| rank(node));
        best.cloned().ok_or_else(|| Failure::NotExecuted("no node is known".into()))
    }

    fn failed(&self, node: &Node, error: &ExecutionError) -> Failure {
        if blames_node(error) {
            let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
            avoided.insert(node.host_id.as_u128(), Instant::now() + self.avoid_for);
        }
        Failure::of(error)
    }

    /// Executes a statement once.
    pub async fn execute(
        &self,
        place: Place<'_>,
        statement: &PreparedStatement,
        values: Vec<Value>,
    ) -> Result<Rows, Failure> {
        let node = self.coordinator(place)?;
        let mut statement = statement.clone();
        statement.set_load_balancing_policy(Some(only(&node)));
        match self.session.execute_unpaged(&statement, values).await {
            Ok(result) => Rows::of(result),
            Err(error) => Err(self.failed(&node, &error)),
        }
    }

    /// Executes a statement that may be repeated, on a second node if the first one does not respond.
    pub async fn execute_idempotent(
        &self,
        place: Place<'_>,
        statement: &PreparedStatement,
        values: Vec<Value>,
    ) -> Result<Rows, Failure> {
        match self.execute(place, statement, values.clone()).await {
            Ok(rows) => Ok(rows),
            Err(_) => self.execute(place, statement, values).await,
        }
    }

    /// Executes statements as one batch, once.
    pub async fn batch(
        &self,
        log: LogId,
        statements: Vec<(&PreparedStatement, Vec<Value>)>,
    ) -> Result<Rows, Failure> {
        let node = self.coordinator(Place::Log(log))?;
        let mut batch = Batch::new(BatchType::Logged);
        batch.set_consistency(Consistency::Quorum);
        batch.set_is_idempotent(false);
        batch.set_load_balancing_policy(Some(only(&node)));
        let mut values = Vec::with_capacity(statements.len());
        for (statement, bound) in statements {
            batch.append_statement(statement.clone());
            values.push(bound);
        }
        match self.session.batch(&batch, values).await {
            Ok(result) => Rows::of(result),
            Err(error) => Err(self.failed(&node, &error)),
        }
    }
}

fn only(node: &Arc<Node>) -> Arc<dyn LoadBalancingPolicy> {
    SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None)
}

/// The rows of a result. The columns of a conditional statement differ between outcomes, so they are found by
/// name.
#[derive(Debug, Default)]
pub struct Rows {
    names: Vec<String>,
    rows: Vec<Row>,
}

impl Rows {
    fn of(result: QueryResult) -> Result<Self, Failure> {
        if !result.is_rows() {
            return Ok(Self::default());
        }
        let damaged = |error: &dyn std::fmt::Display| Failure::Unknown(format!("not a result: {error}"));
        let rows = result.into_rows_result().map_err(|error| damaged(&error))?;
        let names = rows.column_specs().iter().map(|column| column.name().to_owned()).collect();
        let rows = rows.rows::<Row>().map_err(|error| damaged(&error))?.collect::<Result<_, _>>();
        Ok(Self { names, rows: rows.map_err(|error| damaged(&error))? })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the condition held.
    pub fn applied(&self) -> Result<bool, Failure> {
        let value = self.get(0, "[applied]").and_then(CqlValue::as_boolean);
        value.ok_or_else(|| Failure::Unknown("the result does not say whether it was applied".into()))
    }

    pub fn get(&self, row: usize, name: &str) -> Option<&CqlValue> {
        let column = self.names.iter().position(|known| known == name)?;
        self.rows.get(row)?.columns.get(column)?.as_ref()
    }

    /// A number; 0 without one.
    pub fn number(&self, row: usize, name: &str) -> u64 {
        self.get(row, name).and_then(CqlValue::as_bigint).unwrap_or_default() as u64
    }

    /// Takes bytes out of the result.
    pub fn take_blob(&mut self, row: usize, name: &str) -> Option<Vec<u8>> {
        let column = self.names.iter().position(|known| known == name)?;
        match self.rows.get_mut(row)?.columns.get_mut(column)?.take() {
            Some(CqlValue::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// The settings that a node reports, by name.
pub async fn node_settings(
    session: &Session,
    node: &Arc<Node>,
    query: &str,
) -> Result<HashMap<String, String>, ExecutionError> {
    let mut statement = scylla::statement::unprepared::Statement::new(query);
    statement.set_consistency(Consistency::One);
    statement.set_load_balancing_policy(Some(only(node)));
    let result = session.query_unpaged(statement, ()).await?;
    let damaged = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(scylla::errors::DbError::Invalid, text))
    };
    let rows = result.into_rows_result().map_err(|error| damaged(&error))?;
    let rows = rows.rows::<(String, String)>().map_err(|error| damaged(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| damaged(&error))
}
