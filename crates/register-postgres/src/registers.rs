//! The engine: registers in a PostgreSQL, asked over three connections by a thread of its own.
//!
//! | connection | for |
//! |---|---|
//! | writer | writes, in groups, one after the other |
//! | reader | reads and extents |
//! | keeper | trims, retirements and rows, which may take long |
//!
//! The thread runs all of it, so that an answer comes whoever waits for it.

use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use jeton_register::{
    Batch, Blob, Error, Extent, Limits, LogId, LogKind, Registers, Slot, WritePermit, WriteResult,
};
use jeton_wal::spawn_aborting;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Config;

use crate::admission::{Queue, Reserved};
use crate::connection::{self, ReconnectingSession};
use crate::error::closed;
use crate::open_error::{OpenError, with_source};
use crate::options::Options;
use crate::pipelined_connection::PipelinedConnection;
use crate::writer::{self, QueuedBatch};
use crate::{reader, schema, trim};

/// Registers in a PostgreSQL. Dropped, it writes what was asked for, and ends.
pub struct PostgresRegisters {
    handle: Handle,
    writer: Option<mpsc::UnboundedSender<QueuedBatch>>,
    reader: Arc<PipelinedConnection>,
    keeper: Arc<PipelinedConnection>,
    /// Room for writes.
    writes: Arc<Queue>,
    /// Room for everything else.
    requests: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// Makes the tables, if they are not there. May be called by several at once.
pub async fn create_schema(url: &str) -> Result<(), OpenError> {
    let config = parse(url)?;
    apart(async move {
        let (client, _connection) = connection::connect(&config).await?;
        schema::create(&client).await
    })
    .await
}

fn parse(url: &str) -> Result<Config, OpenError> {
    let parsed = url.parse::<Config>();
    let mut config = parsed.map_err(|error| OpenError::Url(with_source(&error)))?;
    if config.get_application_name().is_none() {
        config.application_name("jeton");
    }
    Ok(config)
}

/// Runs something on a thread and a runtime of its own, whoever waits for it.
async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    let (reply, answer) = oneshot::channel();
    let thread = spawn_aborting("jeton-postgres", move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        drop(reply.send(match runtime {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(OpenError::Unreachable(error.to_string())),
        }));
    });
    thread.map_err(|error| OpenError::Unreachable(error.to_string()))?;
    answer.await.map_err(|_| OpenError::Unreachable("the thread ended".into()))?
}

impl PostgresRegisters {
    /// Connects to a PostgreSQL that has the [tables](create_schema).
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let config = parse(url)?;
        let deadline = options.connect_patience;
        let (tried, options_tried) = (config.clone(), options.clone());
        // A server that is unfit is told of now, and not by the first write.
        apart(async move {
            let mut link = ReconnectingSession::new(tried, options_tried);
            link.session(Instant::now() + deadline).await.map(drop)
        })
        .await?;
        Self::start(config, options).map_err(|error| OpenError::Unreachable(error.to_string()))
    }

    fn start(config: Config, options: Options) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (writer, queue) = mpsc::unbounded_channel();
        let reader = PipelinedConnection::new(config.clone(), options.clone());
        let keeper = PipelinedConnection::new(config.clone(), options.clone());
        let writes = Queue::new(options.waiting_writes_max, options.waiting_bytes_max);
        let requests = Queue::new(options.waiting_requests_max, usize::MAX / 2);
        let thread = spawn_aborting("jeton-postgres", move || {
            runtime.block_on(writer::run(config, options, queue));
        })?;
        Ok(Self { handle, writer: Some(writer), reader, keeper, writes, requests, thread: Some(thread) })
    }

    fn reserve(&self, batch: &Batch, permit: WritePermit) -> Result<WritePermit, Error> {
        let (count, bytes) = (batch.len(), batch.value_bytes());
        let reserved = permit.reserved::<Reserved>();
        let covered = reserved.is_some_and(|reserved| reserved.covers(&self.writes, count, bytes));
        if covered { Ok(permit) } else { self.admit(count, bytes) }
    }

    fn check(&self, batch: &Batch) -> Result<(), Error> {
        let most = self.limits().value_bytes_max;
        for (log, slot, value) in batch.iter() {
            if value.len() > most {
                let len = value.len();
                return Err(Error::TooLarge(format!("a value of {len} bytes; at most {most}")));
            }
            if slot > Slot::MAX {
                return Err(Error::Invalid(format!("{log} has no slot {slot}")));
            }
        }
        Ok(())
    }

    /// Begins something. The answer comes whoever waits for it.
    fn begin<T, W>(&self, work: W) -> impl Future<Output = Result<T, Error>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let begun = self.requests.reserve(1, 0).map(|room| {
            self.handle.spawn(async move {
                let _room = room;
                work.await
            })
        });
        async move { begun?.await.unwrap_or_else(|_| Err(closed())) }
    }
}

impl Drop for PostgresRegisters {
    fn drop(&mut self) {
        drop(self.writer.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that panics ends the process");
        }
    }
}

impl Registers for PostgresRegisters {
    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        let Limits { batch_writes_max, batch_bytes_max, .. } = self.limits();
        if writes > batch_writes_max || value_bytes > batch_bytes_max {
            return Err(Error::TooLarge(format!(
                "a batch of {writes} writes and {value_bytes} bytes; at most {batch_writes_max} and {batch_bytes_max}"
            )));
        }
        self.writes.reserve(writes, value_bytes).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let queued = self.check(&batch).and_then(|()| self.reserve(&batch, permit)).and_then(|permit| {
            let (reply, answer) = oneshot::channel();
            let sent = self.writer.as_ref().map(|writer| writer.send(QueuedBatch { batch, permit, reply }));
            if matches!(sent, Some(Ok(()))) { Ok(answer) } else { Err(closed()) }
        });
        async move { queued?.await.unwrap_or_else(|_| Err(Error::Unknown("the engine ended".into()))) }
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        let lane = Arc::clone(&self.reader);
        self.begin(async move { reader::read(&lane, log, from, limit).await })
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        let lane = Arc::clone(&self.reader);
        self.begin(async move { reader::extent(&lane, log).await })
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let lane = Arc::clone(&self.keeper);
        self.begin(async move { trim::trim(&lane, log, through).await })
    }

    fn retire(&self, space: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let lane = Arc::clone(&self.keeper);
        self.begin(async move { trim::retire(&lane, space, below).await })
    }

    fn put_blob(&self, name: &str, row: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        let (lane, name) = (Arc::clone(&self.keeper), name.to_owned());
        self.begin(async move { trim::put_blob(&lane, name, row).await })
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        let (lane, name) = (Arc::clone(&self.keeper), name.to_owned());
        self.begin(async move { trim::get_blob(&lane, name).await })
    }
}
