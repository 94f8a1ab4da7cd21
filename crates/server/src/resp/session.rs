//! What a connection is: who speaks, in which version of the protocol, and what it has begun.

use std::sync::Arc;

use jeton_auth::{AuthContext, AuthError, Right};
use jeton_core::{Catalog, Cell, Column, Table};
use jeton_engine::{Request, Response, TablesView};
use jeton_resp::reply_writer::Version;

use super::reply::{self, NO_AUTH};
use crate::service::Service;

/// A connection.
pub struct Session {
    pub service: Arc<Service>,
    /// Its number, for whoever asks.
    pub number: u64,
    /// The other end, for whoever asks.
    pub peer: String,
    pub version: Version,
    /// The name that it gave itself.
    pub name: Vec<u8>,
    pass: Option<AuthContext>,
    view: TablesView,
    /// The table used last, and the tables that it is of.
    last: Option<(Arc<Catalog>, Arc<Table>)>,
    /// A transaction that was begun.
    pub queued: Option<MultiQueue>,
}

/// A transaction that was begun: its commands so far.
#[derive(Debug, Default)]
pub struct MultiQueue {
    pub commands: Vec<Vec<Vec<u8>>>,
    /// The keys that they name, and their bytes.
    pub keys: usize,
    pub bytes: usize,
    /// Whether a command could not be queued: then none is done.
    pub broken: bool,
}

/// A key: its table, and where in it.
pub struct ResolvedKey {
    pub table: Arc<Table>,
    pub cell: Cell,
}

impl Session {
    /// A connection from somebody.
    pub fn new(service: Arc<Service>, number: u64, peer: String) -> Self {
        let (pass, view) = (service.access.anonymous().ok(), service.engine.tables_view());
        let (version, name) = (Version::Resp2, Vec::new());
        Self { service, number, peer, version, name, pass, view, last: None, queued: None }
    }

    /// As if it were new.
    pub fn reset(&mut self) {
        self.pass = self.service.access.anonymous().ok();
        (self.version, self.queued) = (Version::Resp2, None);
        self.name.clear();
    }

    /// Whether it may do anything at all.
    pub fn is_known(&self) -> bool {
        self.pass.is_some()
    }

    /// Shows a token.
    pub fn authenticate(&mut self, token: &[u8]) -> Result<(), AuthError> {
        let pass = self.service.access.authenticate(token, self.service.millis())?;
        self.pass = Some(pass);
        Ok(())
    }

    /// Does what is asked, but for what would create more counters than its token may.
    pub async fn submit_batch(&self, requests: Vec<Request>) -> Vec<Response> {
        match &self.pass {
            Some(pass) => self.service.submit_as(pass, requests).await,
            None => unreachable!("who has not said who it is asks for nothing"),
        }
    }

    /// Counts operations against its rate.
    pub fn spend(&self, millis: u64, operations: u64) -> Result<(), String> {
        let Some(pass) = &self.pass else { return Err(NO_AUTH.into()) };
        pass.spend(millis, operations).map_err(|throttled| format!("BUSY {throttled}"))
    }

    /// The table of this name, if it may do this there.
    pub fn table(&mut self, name: &str, right: Right, millis: u64) -> Result<Arc<Table>, String> {
        let Some(pass) = &self.pass else { return Err(NO_AUTH.into()) };
        // Before it is looked for: who has no right there does not learn whether there is such a table.
        if let Err(denied) = pass.may(name, right, millis) {
            self.service.metrics.add(crate::Metric::Denied, 1);
            return Err(reply::denied(denied));
        }
        let catalog = self.view.look();
        match &self.last {
            Some((of, table)) if Arc::ptr_eq(of, catalog) && table.name == name => Ok(Arc::clone(table)),
            _ => {
                let Some(table) = catalog.find(name) else {
                    let name = name.escape_debug();
                    return Err(format!(
                        "NOTABLE there is no table '{name}'; a key of another table is written table/row"
                    ));
                };
                self.last = Some((Arc::clone(catalog), Arc::clone(table)));
                Ok(Arc::clone(table))
            }
        }
    }

    /// Where a key is, if it may do this there: `row` of the default table, or `table/row`.
    pub fn place(&mut self, key: &[u8], right: Right, millis: u64) -> Result<ResolvedKey, String> {
        let (table, row) = match key.iter().position(|byte| *byte == b'/') {
            Some(slash) => {
                let (name, row) = (&key[..slash], &key[slash + 1..]);
                // Mostly the same as before, and that is text.
                let last = self.last.as_ref().map(|(_, table)| Arc::clone(table));
                let name = match &last {
                    Some(table) if table.name.as_bytes() == name => &table.name,
                    _ => std::str::from_utf8(name)
                        .map_err(|_| "NOTABLE the name of a table is text".to_string())?,
                };
                (self.table(name, right, millis)?, row)
            }
            None => {
                let service = Arc::clone(&self.service);
                (self.table(&service.options.default_table, right, millis)?, key)
            }
        };
        let cell = self.service.engine.cell(&table, row, UNNAMED.get_or_init(Column::unnamed));
        Ok(ResolvedKey { cell: cell.map_err(|error| format!("ERR {error}"))?, table })
    }
}

/// The column of keys.
static UNNAMED: std::sync::OnceLock<Column> = std::sync::OnceLock::new();
