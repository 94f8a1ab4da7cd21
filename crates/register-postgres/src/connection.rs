//! A connection, set up so that what it is told is durable; and made again when it is lost.
//!
//! A server is asked whether it can be relied on with every connection: behind one address there may be another tomorrow.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::{Client, Config, Error, NoTls};

use crate::open_error::{OpenError, with_source};
use crate::options::Options;
use crate::schema;
use crate::statements::Statements;

/// How long is waited between two tries to connect: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// How long one try may take.
const TRY: Duration = Duration::from_secs(3);

/// A session of the database. Dropped, it is gone at once, whatever is on its way.
#[derive(Debug)]
pub struct Session {
    pub client: Client,
    pub statements: Statements,
    connection: Connection,
}

/// The task that moves the bytes.
#[derive(Debug)]
pub struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects, without asking anything.
pub async fn connect(config: &Config) -> Result<(Client, Connection), OpenError> {
    let connected = timeout(TRY, config.connect(NoTls)).await;
    let connected = connected.map_err(|_| OpenError::Unreachable("no answer".into()))?;
    let (client, connection) = connected.map_err(|error| match error.as_db_error() {
        Some(said) => OpenError::Unreachable(said.message().to_owned()),
        None => OpenError::Unreachable(with_source(&error)),
    })?;
    // Whoever asked something hears how it ended.
    let moving = tokio::spawn(async move { drop(connection.await) });
    Ok((client, Connection(moving)))
}

/// Connects and prepares.
async fn open(config: &Config, options: &Options) -> Result<Session, OpenError> {
    let (client, connection) = connect(config).await?;
    let prepared = async {
        check_server(&client).await?;
        schema::check(&client).await?;
        let refused = |error: Error| OpenError::from_statement(&error);
        client.batch_execute(&settings(options)).await.map_err(refused)?;
        Statements::prepare(&client).await.map_err(refused)
    };
    let prepared = timeout(TRY, prepared).await;
    let statements = prepared.map_err(|_| OpenError::Unreachable("no answer".into()))??;
    Ok(Session { client, statements, connection })
}

async fn setting(client: &Client, name: &str) -> Result<String, OpenError> {
    let row = client.query_one("SELECT current_setting($1)", &[&name]).await;
    Ok(row.map_err(|error| OpenError::from_statement(&error))?.get(0))
}

/// Whether the server keeps what it acknowledges.
async fn check_server(client: &Client) -> Result<(), OpenError> {
    let fsync = setting(client, "fsync").await?;
    if fsync != "on" {
        let text = format!("fsync is {fsync}: what it acknowledges is gone when the power fails");
        return Err(OpenError::Unfit(text));
    }
    let row = client.query_one("SELECT pg_is_in_recovery()", &[]).await;
    if row.map_err(|error| OpenError::from_statement(&error))?.get(0) {
        return Err(OpenError::Unfit("it is a standby, which takes no writes".into()));
    }
    Ok(())
}

/// What every session begins with. Only `remote_apply` is stricter than `on`, and is left as it is. Every statement finds single registers by their
/// keys: statistics that are behind must not lead the planner to read whole tables instead.
fn settings(options: &Options) -> String {
    let patience = options.answer_patience.as_millis();
    format!(
        "SELECT set_config('synchronous_commit', 'on', false)
            WHERE current_setting('synchronous_commit') <> 'remote_apply';
        SET default_transaction_isolation = 'read committed';
        SET default_transaction_read_only = off;
        SET statement_timeout = {patience};
        SET enable_seqscan = off;
        SET enable_hashjoin = off;
        SET enable_mergejoin = off;"
    )
}

/// A session that is there when it is needed, if it can be.
#[derive(Debug)]
pub struct ReconnectingSession {
    config: Config,
    options: Options,
    session: Option<Arc<Session>>,
    back_off: Duration,
}

impl Session {
    /// Whether it can still be asked something.
    fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.connection.0.is_finished()
    }
}

impl ReconnectingSession {
    pub fn new(config: Config, options: Options) -> Self {
        Self { config, options, session: None, back_off: BACK_OFF.0 }
    }

    /// The session. If there is none one is made, as often as it takes, until this time.
    pub async fn session(&mut self, deadline: Instant) -> Result<Arc<Session>, OpenError> {
        if let Some(session) = self.session.as_ref().filter(|session| session.is_open()) {
            return Ok(Arc::clone(session));
        }
        self.session = None;
        let mut last = OpenError::Unreachable("no answer".into());
        loop {
            match timeout_at(deadline, open(&self.config, &self.options)).await {
                Ok(Ok(session)) => {
                    self.back_off = BACK_OFF.0;
                    return Ok(Arc::clone(self.session.insert(Arc::new(session))));
                }
                // QueuedBatch does not mend these.
                Ok(Err(error @ (OpenError::NoSchema | OpenError::Version { .. } | OpenError::Unfit(_)))) => {
                    return Err(error);
                }
                Ok(Err(error)) => last = error,
                Err(_) => return Err(last),
            }
            let next = Instant::now() + self.back_off;
            if next >= deadline {
                return Err(last);
            }
            sleep_until(next).await;
            self.back_off = (self.back_off * 2).min(BACK_OFF.1);
        }
    }

    /// Asks nothing more of this session.
    pub fn give_up(&mut self, session: &Arc<Session>) {
        self.session.take_if(|present| Arc::ptr_eq(present, session));
    }

    pub fn options(&self) -> &Options {
        &self.options
    }
}
