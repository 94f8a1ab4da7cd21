//! A node of a cluster: takes every request, and executes it at the owner of its stripe.

use std::sync::Arc;
use std::time::Duration;

use jeton_core::{
    Addition, AddressError, BranchName, BranchOutcome, Catalog, Cell, Column, IdStatus, OpId, Operation,
    Table, TableSettings, Timestamp, Value,
};
use jeton_engine::{
    Ask, CreationQuota, EngineError, FinishResult, OperationOutcome, PrepareError, PrepareResult,
    PreparedBranchInfo, Request, Response, Stats, TableError, TablesView,
};
use jeton_register::Registers;

use crate::node_options::NodeOptions;
use crate::status::ClusterStatus;

/// How fresh the result of a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The owner proves its ownership after the read arrived.
    Linearizable,
    /// The owner has proved its ownership less than this time ago.
    MaxStaleness(Duration),
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    #[error("{0}")]
    Other(String),
}

#[allow(clippy::unimplemented, unused_variables, missing_debug_implementations, missing_docs)]
pub struct ClusterNode<R> {
    registers: Arc<R>,
}

#[allow(clippy::unimplemented, unused_variables)]
impl<R: Registers> ClusterNode<R> {
    /// Joins the cluster of these registers, or founds it. Blocks.
    pub fn open(
        registers: Arc<R>,
        options: NodeOptions,
        runtime: tokio::runtime::Handle,
    ) -> Result<Arc<Self>, NodeError> {
        unimplemented!()
    }

    pub fn to_request(&self, ask: Ask) -> Request {
        unimplemented!()
    }

    /// As the method of the engine. Reads are linearizable.
    pub fn submit_prehashed(
        &self,
        requests: Vec<Request>,
    ) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        async move { unimplemented!() }
    }

    pub fn submit_with(
        &self,
        requests: Vec<Request>,
        freshness: Freshness,
    ) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        async move { unimplemented!() }
    }

    pub fn submit_batch(&self, asks: Vec<Ask>) -> impl Future<Output = Vec<Response>> + Send + use<R> {
        async move { unimplemented!() }
    }

    pub fn apply(
        &self,
        operation: Operation,
    ) -> impl Future<Output = Result<OperationOutcome, EngineError>> + Send + use<R> {
        async move { unimplemented!() }
    }

    pub fn get(
        &self,
        cell: Cell,
    ) -> impl Future<Output = Result<Option<Value>, EngineError>> + Send + use<R> {
        async move { unimplemented!() }
    }

    pub fn cell(&self, table: &Table, row: &[u8], column: &Column) -> Result<Cell, AddressError> {
        unimplemented!()
    }

    pub fn table(&self, name: &str) -> Result<Arc<Table>, EngineError> {
        unimplemented!()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        unimplemented!()
    }

    pub fn tables_view(&self) -> TablesView {
        unimplemented!()
    }

    pub fn tables_without_filters(&self) -> Vec<String> {
        unimplemented!()
    }

    /// Blocks.
    pub fn create_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        unimplemented!()
    }

    /// Blocks.
    pub fn change_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        unimplemented!()
    }

    /// Not supported in a cluster yet.
    pub fn delete_table(&self, name: &str) -> Result<Timestamp, TableError> {
        unimplemented!()
    }

    pub async fn operation(&self, cell: Cell, id: OpId) -> Result<IdStatus, EngineError> {
        unimplemented!()
    }

    pub async fn prepare_branch(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<PrepareResult, PrepareError> {
        unimplemented!()
    }

    pub async fn finish_branch(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<FinishResult, EngineError> {
        unimplemented!()
    }

    pub async fn prepared_branches(&self) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        unimplemented!()
    }

    /// Resolves when all owners have stored what they decided so far.
    pub async fn stored(&self) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Blocks.
    pub fn list(
        &self,
        table: &Table,
        prefix: &[u8],
        after: Option<&Cell>,
        limit: usize,
    ) -> Result<Vec<Cell>, EngineError> {
        unimplemented!()
    }

    /// Of the stripes of this node.
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }

    pub fn now(&self) -> Timestamp {
        unimplemented!()
    }

    pub fn status(&self) -> ClusterStatus {
        unimplemented!()
    }

    /// Yields all stripes to other nodes. Afterwards the node routes requests and owns nothing.
    pub async fn drain(&self) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Closes the engines of the node without yielding. Blocks.
    pub fn close(&self) {
        unimplemented!()
    }
}

/// Moves to the crate of peer connections: files of the certificate authority of the nodes, of the
/// certificate of this node and of its key.
#[derive(Debug, Clone)]
pub struct PeerTls {
    pub ca: std::path::PathBuf,
    pub certificate: std::path::PathBuf,
    pub key: std::path::PathBuf,
}
