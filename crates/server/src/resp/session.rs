//! The state of a connection: authentication, protocol version and queued transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton_auth::{AuthContext, AuthError, Right};
use jeton_core::{Catalog, Cell, Column, Table};
use jeton_engine::{Request, Response, TablesView};
use jeton_resp::reply_writer::Version;

use super::pipeline::OwnedCommand;
use super::reply::{self, NO_AUTH};
use crate::auth_failures::AuthFailures;
use crate::client_memory::Account;
use crate::metrics::Metric;
use crate::service::Service;

pub struct Session {
    pub service: Arc<Service>,
    pub number: u64,
    pub peer: String,
    pub version: Version,
    /// Time of the commands in execution, in milliseconds since 1970.
    pub millis: u64,
    pub name: Vec<u8>,
    auth: Option<AuthContext>,
    view: TablesView,
    /// The table used last, and its catalog.
    last: Option<(Arc<Catalog>, Arc<Table>)>,
    pub queued: Option<MultiQueue>,
    /// Name and version of the client library.
    pub library: [Vec<u8>; 2],
    pub since: Instant,
    auth_failures: AuthFailures,
    /// The delay of the next reply, after a failed authentication.
    pub delay: Option<Duration>,
    pub memory: Account,
}

/// Commands queued since `MULTI`.
#[derive(Debug, Default)]
pub struct MultiQueue {
    pub commands: Vec<OwnedCommand>,
    pub keys: usize,
    /// Their size in memory.
    pub bytes: usize,
    /// Whether a command could not be queued, so that `EXEC` fails.
    pub broken: bool,
}

pub struct ResolvedKey {
    pub table: Arc<Table>,
    pub cell: Cell,
}

impl Session {
    /// Creates the session of a new connection, anonymous if the server allows it.
    pub fn new(service: Arc<Service>, number: u64, peer: String) -> Self {
        let (auth, view) = (service.access.anonymous().ok(), service.engine.tables_view());
        let (version, millis, name) = (Version::Resp2, service.millis(), Vec::new());
        let (auth_failures, memory) = (AuthFailures::default(), Account::new(service.client_memory.clone()));
        Self {
            service,
            number,
            peer,
            version,
            millis,
            name,
            auth,
            view,
            last: None,
            queued: None,
            library: [const { Vec::new() }; 2],
            since: Instant::now(),
            auth_failures,
            delay: None,
            memory,
        }
    }

    pub fn reset(&mut self) {
        self.auth = self.service.access.anonymous().ok();
        (self.version, self.queued) = (Version::Resp2, None);
        self.name.clear();
    }

    /// Whether the client is authenticated by a token that is still valid, or may be anonymous.
    pub fn is_authenticated(&self) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.check(self.millis).is_ok())
    }

    /// The name of the token; `default` on a server without tokens, as in Redis.
    pub fn user(&self) -> &str {
        self.auth.as_ref().and_then(AuthContext::name).unwrap_or("default")
    }

    /// Whether the client may learn that a table exists.
    pub fn may_see(&self, table: &str) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.may_see(table, self.millis))
    }

    pub fn authenticate(&mut self, token: &[u8]) -> Result<(), AuthError> {
        let authenticated = self.service.access.authenticate(token, self.service.millis());
        let failed = |why: &AuthError| {
            let metric = Metric::RespAuthFailures;
            self.delay = Some(self.auth_failures.add(&self.service, metric, &self.peer, *why));
        };
        self.auth = Some(authenticated.inspect_err(failed)?);
        Ok(())
    }

    /// Submits requests to the engine, except those that exceed the counter quota of the client.
    pub async fn submit_batch(&self, requests: Vec<Request>) -> Vec<Response> {
        match &self.auth {
            Some(auth) => self.service.submit_as(auth, requests).await,
            None => unreachable!("an unauthenticated session sends no requests"),
        }
    }

    /// Counts operations against the rate limit of the client.
    pub fn spend(&self, operations: u64) -> Result<(), String> {
        let Some(auth) = &self.auth else { return Err(NO_AUTH.into()) };
        auth.spend(self.millis, operations).map_err(|throttled| format!("BUSY {throttled}"))
    }

    /// Finds a table and checks the right of the client to it.
    pub fn table(&mut self, name: &str, right: Right) -> Result<Arc<Table>, String> {
        let Some(auth) = &self.auth else { return Err(NO_AUTH.into()) };
        // Checked before the lookup, so that a client without the right does not learn whether the table
        // exists.
        if let Err(denied) = auth.may(name, right, self.millis) {
            self.service.metrics.add(Metric::Denied, 1);
            return Err(reply::denied(denied));
        }
        let catalog = self.view.look();
        match &self.last {
            Some((of, table)) if Arc::ptr_eq(of, catalog) && table.name == name => Ok(Arc::clone(table)),
            _ => {
                let Some(table) = catalog.find(name) else {
                    let name = name.escape_debug();
                    return Err(format!(
                        "NOTABLE there is no table '{name}'; the text before the first '/' of a key is the name of a table"
                    ));
                };
                self.last = Some((Arc::clone(catalog), Arc::clone(table)));
                Ok(Arc::clone(table))
            }
        }
    }

    /// Resolves a key, `row` of the default table or `table/row`, and checks the right of the client to it.
    pub fn resolve(&mut self, key: &[u8], right: Right) -> Result<ResolvedKey, String> {
        let (table, row) = match key.iter().position(|byte| *byte == b'/') {
            Some(slash) => {
                let (name, row) = (&key[..slash], &key[slash + 1..]);
                // Usually the table used last, whose name is known to be UTF-8.
                let last = self.last.as_ref().map(|(_, table)| Arc::clone(table));
                let name = match &last {
                    Some(table) if table.name.as_bytes() == name => &table.name,
                    _ => std::str::from_utf8(name)
                        .map_err(|_| "NOTABLE the name of a table must be UTF-8".to_string())?,
                };
                (self.table(name, right)?, row)
            }
            None => {
                let service = Arc::clone(&self.service);
                (self.table(&service.options.default_table, right)?, key)
            }
        };
        let cell = self.service.engine.cell(&table, row, UNNAMED.get_or_init(Column::unnamed));
        Ok(ResolvedKey { cell: cell.map_err(|error| format!("ERR {error}"))?, table })
    }
}

/// The column that holds the value of a key.
static UNNAMED: std::sync::OnceLock<Column> = std::sync::OnceLock::new();
