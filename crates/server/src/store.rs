//! The store behind the service: the engine of this machine, or a node of a cluster.

use std::sync::Arc;

use jeton_cluster::{ClusterNode, ClusterStatus};
use jeton_core::{
    Addition, AddressError, BranchName, BranchOutcome, Catalog, Cell, Column, IdStatus, OpId, Table,
    TableSettings, Timestamp,
};
use jeton_engine::{
    Ask, CreationQuota, Engine, EngineError, FinishResult, PrepareError, PrepareResult, PreparedBranchInfo,
    Request, Response, Stats, TableError, TablesView,
};
use jeton_register_postgres::PostgresRegisters;

/// Where the counters are.
#[derive(Clone)]
pub enum Store {
    /// In the data directory.
    Local(Arc<Engine>),
    /// In the registers of a cluster. Registers in another database are another variant.
    Postgres(Arc<ClusterNode<PostgresRegisters>>),
}

impl From<Arc<Engine>> for Store {
    fn from(engine: Arc<Engine>) -> Self {
        Self::Local(engine)
    }
}

/// Calls the same method of every variant.
macro_rules! each {
    ($store:expr, $inner:ident => $call:expr) => {
        match $store {
            Store::Local($inner) => $call,
            Store::Postgres($inner) => $call,
        }
    };
}

impl Store {
    pub fn catalog(&self) -> Arc<Catalog> {
        each!(self, store => store.catalog())
    }

    pub fn tables_view(&self) -> TablesView {
        each!(self, store => store.tables_view())
    }

    pub fn table(&self, name: &str) -> Result<Arc<Table>, EngineError> {
        each!(self, store => store.table(name))
    }

    pub fn now(&self) -> Timestamp {
        each!(self, store => store.now())
    }

    pub fn create_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        each!(self, store => store.create_table(name, settings))
    }

    pub fn change_table(&self, name: &str, settings: TableSettings) -> Result<Arc<Table>, TableError> {
        each!(self, store => store.change_table(name, settings))
    }

    pub fn cell(&self, table: &Table, row: &[u8], column: &Column) -> Result<Cell, AddressError> {
        each!(self, store => store.cell(table, row, column))
    }

    pub fn to_request(&self, ask: Ask) -> Request {
        each!(self, store => store.to_request(ask))
    }

    pub async fn submit_prehashed(&self, requests: Vec<Request>) -> Vec<Response> {
        match self {
            Self::Local(engine) => engine.submit_prehashed(requests).await,
            // Boxed, so that the future of a local store stays small.
            Self::Postgres(node) => Box::pin(node.submit_prehashed(requests)).await,
        }
    }

    pub async fn operation(&self, cell: Cell, id: OpId) -> Result<IdStatus, EngineError> {
        each!(self, store => store.operation(cell, id).await)
    }

    pub async fn prepare_branch(
        &self,
        name: &BranchName,
        additions: Vec<Addition>,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<PrepareResult, PrepareError> {
        each!(self, store => store.prepare_branch(name, additions, quota).await)
    }

    pub async fn finish_branch(
        &self,
        name: &BranchName,
        outcome: BranchOutcome,
        quota: Option<&Arc<dyn CreationQuota>>,
    ) -> Result<FinishResult, EngineError> {
        each!(self, store => store.finish_branch(name, outcome, quota).await)
    }

    pub async fn prepared_branches(&self) -> Result<Vec<PreparedBranchInfo>, EngineError> {
        each!(self, store => store.prepared_branches().await)
    }

    pub async fn stored(&self) -> Result<(), EngineError> {
        each!(self, store => store.stored().await)
    }

    /// Blocks.
    pub fn list(
        &self,
        table: &Table,
        prefix: &[u8],
        after: Option<&Cell>,
        limit: usize,
    ) -> Result<Vec<Cell>, EngineError> {
        each!(self, store => store.list(table, prefix, after, limit))
    }

    pub fn stats(&self) -> Stats {
        each!(self, store => store.stats())
    }

    /// The engine, if the counters are on this machine.
    pub fn local(&self) -> Option<&Arc<Engine>> {
        match self {
            Self::Local(engine) => Some(engine),
            Self::Postgres(_) => None,
        }
    }

    /// The status of the cluster, if the server is a node of one.
    pub fn cluster_status(&self) -> Option<ClusterStatus> {
        match self {
            Self::Local(_) => None,
            Self::Postgres(node) => Some(node.status()),
        }
    }

    /// Gives all stripes to other nodes of the cluster, if the server is a node of one.
    pub async fn drain(&self) {
        match self {
            Self::Local(_) => {}
            Self::Postgres(node) => node.drain().await,
        }
    }

    /// Blocks.
    pub fn close(&self) {
        each!(self, store => store.close());
    }
}
