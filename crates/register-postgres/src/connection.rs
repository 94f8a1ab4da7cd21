//! A session with synchronous commit, which is replaced when it is lost.
//!
//! The server is checked with every connection: the address may belong to another server after a failover.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::{Client, Error};

use crate::connector::{Connector, is_tls_refusal};
use crate::open_error::{OpenError, with_source};
use crate::options::Options;
use crate::schema;
use crate::statements::Statements;

/// The first and the longest backoff between attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// The timeout of one attempt to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// A session of the database. Dropping it closes the connection at once, also with statements in flight.
#[derive(Debug)]
pub struct Session {
    pub client: Client,
    pub statements: Statements,
    connection: Connection,
}

/// The task that reads and writes the socket.
#[derive(Debug)]
pub struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects, without a statement.
pub async fn connect(connector: &Connector) -> Result<(Client, Connection), OpenError> {
    let connected = timeout(ATTEMPT_TIMEOUT, connector.connect()).await;
    let connected = connected.map_err(|_| OpenError::Unreachable("no response".into()))?;
    let (client, connection) = connected.map_err(|error| match error.as_db_error() {
        Some(refusal) => OpenError::Unreachable(refusal.message().to_owned()),
        None if is_tls_refusal(&error) => OpenError::Tls(with_source(&error)),
        None => OpenError::Unreachable(with_source(&error)),
    })?;
    // An error of the connection is reported by its statements.
    let task = tokio::spawn(async move { drop(connection.await) });
    Ok((client, Connection(task)))
}

/// Connects, checks the server and prepares the statements.
async fn open(connector: &Connector, options: &Options) -> Result<Session, OpenError> {
    let (client, connection) = connect(connector).await?;
    let prepared = async {
        check_server(&client).await?;
        schema::check(&client).await?;
        let refused = |error: Error| OpenError::from_statement(&error);
        client.batch_execute(&settings(options)).await.map_err(refused)?;
        Statements::prepare(&client).await.map_err(refused)
    };
    let prepared = timeout(ATTEMPT_TIMEOUT, prepared).await;
    let statements = prepared.map_err(|_| OpenError::Unreachable("no response".into()))??;
    Ok(Session { client, statements, connection })
}

async fn setting(client: &Client, name: &str) -> Result<String, OpenError> {
    let row = client.query_one("SELECT current_setting($1)", &[&name]).await;
    Ok(row.map_err(|error| OpenError::from_statement(&error))?.get(0))
}

/// Whether acknowledged transactions survive a crash of the server.
async fn check_server(client: &Client) -> Result<(), OpenError> {
    let fsync = setting(client, "fsync").await?;
    if fsync != "on" {
        let text = format!("fsync is {fsync}: a power failure loses acknowledged transactions");
        return Err(OpenError::Unfit(text));
    }
    let row = client.query_one("SELECT pg_is_in_recovery()", &[]).await;
    if row.map_err(|error| OpenError::from_statement(&error))?.get(0) {
        return Err(OpenError::Unfit("it is a standby, which executes no writes".into()));
    }
    Ok(())
}

/// Streaming standbys by whether commits wait for them. Backups and logical replication are none. A role
/// without `pg_read_all_stats` sees no standbys.
const STANDBYS: &str = "
    SELECT count(*) FILTER (WHERE sync_state <> 'async'), count(*) FILTER (WHERE sync_state = 'async')
    FROM pg_stat_replication
    WHERE state = 'streaming' AND application_name NOT IN ('pg_basebackup', 'pg_receivewal')
        AND pid NOT IN (SELECT active_pid FROM pg_replication_slots
            WHERE slot_type = 'logical' AND active_pid IS NOT NULL)";

/// Whether acknowledged transactions survive a failover to a standby.
pub async fn check_standbys(client: &Client) -> Result<(), OpenError> {
    let row = client.query_one(STANDBYS, &[]).await.map_err(|error| OpenError::from_statement(&error))?;
    let (synchronous, asynchronous): (i64, i64) = (row.get(0), row.get(1));
    if synchronous == 0 && asynchronous > 0 {
        let text = "all of its standbys are asynchronous, and a failover to one would lose acknowledged transactions: \
                    name them in synchronous_standby_names";
        return Err(OpenError::Unfit(text.into()));
    }
    Ok(())
}

/// The settings of every session. `remote_apply` is stricter than `on` and is left as it is. Every statement
/// finds registers by their keys: outdated statistics must not make the planner scan whole tables.
fn settings(options: &Options) -> String {
    let timeout = options.statement_timeout.as_millis();
    format!(
        "SELECT set_config('synchronous_commit', 'on', false)
            WHERE current_setting('synchronous_commit') <> 'remote_apply';
        SET default_transaction_isolation = 'read committed';
        SET default_transaction_read_only = off;
        SET statement_timeout = {timeout};
        SET enable_seqscan = off;
        SET enable_hashjoin = off;
        SET enable_mergejoin = off;"
    )
}

/// A session that is opened when it is needed, and opened again when it was lost.
#[derive(Debug)]
pub struct ReconnectingSession {
    connector: Connector,
    options: Options,
    session: Option<Arc<Session>>,
    backoff: Duration,
}

impl Session {
    /// Whether it can still execute statements.
    fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.connection.0.is_finished()
    }
}

impl ReconnectingSession {
    pub fn new(connector: Connector, options: Options) -> Self {
        Self { connector, options, session: None, backoff: BACKOFF.0 }
    }

    /// The session. Without one, connects with retries until the deadline.
    pub async fn session(&mut self, deadline: Instant) -> Result<Arc<Session>, OpenError> {
        if let Some(session) = self.session.as_ref().filter(|session| session.is_open()) {
            return Ok(Arc::clone(session));
        }
        self.session = None;
        let mut last = OpenError::Unreachable("no response".into());
        loop {
            match timeout_at(deadline, open(&self.connector, &self.options)).await {
                Ok(Ok(session)) => {
                    self.backoff = BACKOFF.0;
                    return Ok(Arc::clone(self.session.insert(Arc::new(session))));
                }
                // A retry does not help.
                Ok(Err(
                    error @ (OpenError::NoSchema
                    | OpenError::Version { .. }
                    | OpenError::Unfit(_)
                    | OpenError::Tls(_)),
                )) => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => return Err(last),
            }
            let next = Instant::now() + self.backoff;
            if next >= deadline {
                return Err(last);
            }
            sleep_until(next).await;
            self.backoff = (self.backoff * 2).min(BACKOFF.1);
        }
    }

    /// Executes nothing more on this session.
    pub fn discard(&mut self, session: &Arc<Session>) {
        self.session.take_if(|present| Arc::ptr_eq(present, session));
    }

    pub fn options(&self) -> &Options {
        &self.options
    }
}
