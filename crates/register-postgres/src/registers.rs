//! The engine: registers in PostgreSQL over three connections.
//!
//! | connection | for |
//! |---|---|
//! | writer | writes, in groups, one group after the other |
//! | reader | reads and extents |
//! | maintenance | trims, retirements, blobs and objects, which may take long |
//!
//! A thread of the engine runs all of them, so that futures complete on any executor.

use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use jeton_register::{
    Admission, Admitted, Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit,
    WriteQueue, WriteResult,
};
use jeton_wal::spawn_aborting;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::connection::{self, ReconnectingSession};
use crate::connector::Connector;
use crate::error::closed;
use crate::open_error::OpenError;
use crate::options::Options;
use crate::pipelined_connection::PipelinedConnection;
use crate::{objects, reader, schema, trim, writer};

/// Registers in PostgreSQL. Dropping it executes the writes in the queue and closes the connections.
pub struct PostgresRegisters {
    handle: Handle,
    writer: Option<WriteQueue<Batch, Vec<WriteResult>>>,
    reader: Arc<PipelinedConnection>,
    maintenance: Arc<PipelinedConnection>,
    write_admission: Arc<Admission>,
    /// For all other requests.
    request_admission: Arc<Admission>,
    thread: Option<JoinHandle<()>>,
}

/// Creates the tables if they are missing. Concurrent calls are allowed.
pub async fn create_schema(url: &str) -> Result<(), OpenError> {
    let connector = parse(url)?;
    on_own_thread(async move {
        let (client, _connection) = connection::connect(&connector).await?;
        schema::create(&client).await
    })
    .await
}

fn parse(url: &str) -> Result<Connector, OpenError> {
    let mut connector = Connector::parse(url).map_err(OpenError::Url)?;
    if connector.config.get_application_name().is_none() {
        connector.config.application_name("jeton");
    }
    Ok(connector)
}

/// Runs a future on a thread with a runtime, so that the caller needs none.
async fn on_own_thread<T: Send + 'static>(
    work: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    let (sender, result) = oneshot::channel();
    let thread = spawn_aborting("jeton-postgres", move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        drop(sender.send(match runtime {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(OpenError::Unreachable(error.to_string())),
        }));
    });
    thread.map_err(|error| OpenError::Unreachable(error.to_string()))?;
    result.await.map_err(|_| OpenError::Unreachable("the thread ended".into()))?
}

impl PostgresRegisters {
    /// Connects to a server that has the [tables](create_schema).
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let connector = parse(url)?;
        let timeout = options.connect_timeout;
        let mut first = ReconnectingSession::new(connector.clone(), options.clone());
        // An unsuitable server is reported here, not by the first write.
        on_own_thread(async move { first.session(Instant::now() + timeout).await.map(drop) }).await?;
        Self::start(connector, options).map_err(|error| OpenError::Unreachable(error.to_string()))
    }

    fn start(connector: Connector, options: Options) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (writer, queue) = WriteQueue::new();
        let reader = PipelinedConnection::new(connector.clone(), options.clone());
        let maintenance = PipelinedConnection::new(connector.clone(), options.clone());
        let write_admission = Admission::new(options.in_flight_writes_max, options.in_flight_bytes_max);
        let request_admission = Admission::new(options.in_flight_requests_max, usize::MAX);
        let thread = spawn_aborting("jeton-postgres", move || {
            runtime.block_on(writer::run(connector, options, queue));
        })?;
        let (writer, thread) = (Some(writer), Some(thread));
        Ok(Self { handle, writer, reader, maintenance, write_admission, request_admission, thread })
    }

    fn reserve(&self, batch: &Batch, permit: WritePermit) -> Result<WritePermit, Error> {
        let (count, bytes) = (batch.len(), batch.value_bytes());
        let admitted = permit.reserved::<Admitted>();
        let covered = admitted.is_some_and(|admitted| admitted.covers(&self.write_admission, count, bytes));
        if covered { Ok(permit) } else { self.admit(count, bytes) }
    }

    /// Starts a request, which completes also if no caller waits for it.
    fn start_request<T, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let started = self.request_admission.reserve(1, 0).map(|admitted| {
            self.handle.spawn(async move {
                let _admitted = admitted;
                work.await
            })
        });
        async move { started?.await.unwrap_or_else(|_| Err(closed())) }
    }
}

impl Drop for PostgresRegisters {
    fn drop(&mut self) {
        drop(self.writer.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that panics aborts the process");
        }
    }
}

impl Registers for PostgresRegisters {
    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        self.limits().check_batch(writes, value_bytes)?;
        self.write_admission.reserve(writes, value_bytes).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let permit = self.limits().check(&batch).and_then(|()| self.reserve(&batch, permit));
        let queued = permit
            .and_then(|permit| self.writer.as_ref().ok_or_else(closed).and_then(|w| w.submit(batch, permit)));
        let lost = |_| Err(Error::Unknown("the engine was closed before the response".into()));
        async move { queued?.await.unwrap_or_else(lost) }
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        let connection = Arc::clone(&self.reader);
        self.start_request(async move { reader::read(&connection, log, from, limit).await })
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        let connection = Arc::clone(&self.reader);
        self.start_request(async move { reader::extent(&connection, log).await })
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let connection = Arc::clone(&self.maintenance);
        self.start_request(async move { trim::trim(&connection, log, through).await })
    }

    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let connection = Arc::clone(&self.maintenance);
        self.start_request(async move { trim::retire(&connection, kind, below).await })
    }

    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        let (connection, name) = (Arc::clone(&self.maintenance), name.to_owned());
        self.start_request(async move { trim::put_blob(&connection, name, blob).await })
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        let (connection, name) = (Arc::clone(&self.maintenance), name.to_owned());
        self.start_request(async move { trim::get_blob(&connection, name).await })
    }

    fn put_object(&self, name: &str, bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send {
        let (connection, name) = (Arc::clone(&self.maintenance), name.to_owned());
        self.start_request(async move { objects::put(&connection, name, bytes).await })
    }

    fn get_object(&self, name: &str) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send {
        let (connection, name) = (Arc::clone(&self.maintenance), name.to_owned());
        self.start_request(async move { objects::get(&connection, name).await })
    }

    fn delete_objects(&self, names: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        let connection = Arc::clone(&self.maintenance);
        self.start_request(async move { objects::delete(&connection, names).await })
    }

    fn list_objects(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send {
        let connection = Arc::clone(&self.maintenance);
        let names = (prefix.to_owned(), after.to_owned());
        self.start_request(async move { objects::list(&connection, names, limit).await })
    }
}
