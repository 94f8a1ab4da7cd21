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
    Batch, Extent, Failure, Limits, Log, Permit, Registers, Row, Slot, Space, Written, start_thread,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Config;

use crate::connection::{self, Link};
use crate::failure::closed;
use crate::lane::Lane;
use crate::open_error::{OpenError, with_source};
use crate::options::Options;
use crate::queue::{Queue, Reserved};
use crate::writer::{self, Waiting};
use crate::{keeper, reader, schema};

/// Registers in a PostgreSQL. Dropped, it writes what was asked for, and ends.
pub struct PostgresRegisters {
    handle: Handle,
    writer: Option<mpsc::UnboundedSender<Waiting>>,
    reader: Arc<Lane>,
    keeper: Arc<Lane>,
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
    let thread = start_thread("jeton-postgres", move || {
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
            let mut link = Link::new(tried, options_tried);
            link.session(Instant::now() + deadline).await.map(drop)
        })
        .await?;
        Self::start(config, options).map_err(|error| OpenError::Unreachable(error.to_string()))
    }

    fn start(config: Config, options: Options) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (writer, queue) = mpsc::unbounded_channel();
        let reader = Lane::new(config.clone(), options.clone());
        let keeper = Lane::new(config.clone(), options.clone());
        let writes = Queue::new(options.waiting_writes_max, options.waiting_bytes_max);
        let requests = Queue::new(options.waiting_requests_max, usize::MAX / 2);
        let thread = start_thread("jeton-postgres", move || {
            runtime.block_on(writer::run(config, options, queue));
        })?;
        Ok(Self { handle, writer: Some(writer), reader, keeper, writes, requests, thread: Some(thread) })
    }

    fn reserve(&self, batch: &Batch, permit: Permit) -> Result<Permit, Failure> {
        let (count, bytes) = (batch.len(), batch.value_bytes());
        let covered = permit
            .room()
            .and_then(|room| (room as &dyn std::any::Any).downcast_ref::<Reserved>())
            .is_some_and(|room| room.covers(&self.writes, count, bytes));
        if covered { Ok(permit) } else { self.admit(count, bytes) }
    }

    fn check(&self, batch: &Batch) -> Result<(), Failure> {
        let most = self.limits().value_bytes_max;
        for (log, slot, value) in batch.iter() {
            if value.len() > most {
                let len = value.len();
                return Err(Failure::TooLarge(format!("a value of {len} bytes; at most {most}")));
            }
            if slot > Slot::MAX {
                return Err(Failure::Invalid(format!("{log} has no slot {slot}")));
            }
        }
        Ok(())
    }

    /// Begins something. The answer comes whoever waits for it.
    fn begin<T, W>(&self, work: W) -> impl Future<Output = Result<T, Failure>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Failure>> + Send + 'static,
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
    fn admit(&self, writes: usize, value_bytes: usize) -> Result<Permit, Failure> {
        let Limits { batch_writes_max, batch_bytes_max, .. } = self.limits();
        if writes > batch_writes_max || value_bytes > batch_bytes_max {
            return Err(Failure::TooLarge(format!(
                "a batch of {writes} writes and {value_bytes} bytes; at most {batch_writes_max} and {batch_bytes_max}"
            )));
        }
        self.writes.reserve(writes, value_bytes).map(Permit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static {
        let queued = self.check(&batch).and_then(|()| self.reserve(&batch, permit)).and_then(|permit| {
            let (reply, answer) = oneshot::channel();
            let sent = self.writer.as_ref().map(|writer| writer.send(Waiting { batch, permit, reply }));
            if matches!(sent, Some(Ok(()))) { Ok(answer) } else { Err(closed()) }
        });
        async move { queued?.await.unwrap_or_else(|_| Err(Failure::Unknown("the engine ended".into()))) }
    }

    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Failure>> + Send {
        let lane = Arc::clone(&self.reader);
        self.begin(async move { reader::read(&lane, log, from, limit).await })
    }

    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, Failure>> + Send {
        let lane = Arc::clone(&self.reader);
        self.begin(async move { reader::extent(&lane, log).await })
    }

    fn trim(&self, log: Log, through: Slot) -> impl Future<Output = Result<(), Failure>> + Send {
        let lane = Arc::clone(&self.keeper);
        self.begin(async move { keeper::trim(&lane, log, through).await })
    }

    fn retire(&self, space: Space, below: u128) -> impl Future<Output = Result<(), Failure>> + Send {
        let lane = Arc::clone(&self.keeper);
        self.begin(async move { keeper::retire(&lane, space, below).await })
    }

    fn put_row(&self, name: &str, row: Row) -> impl Future<Output = Result<bool, Failure>> + Send {
        let (lane, name) = (Arc::clone(&self.keeper), name.to_owned());
        self.begin(async move { keeper::put_row(&lane, name, row).await })
    }

    fn get_row(&self, name: &str) -> impl Future<Output = Result<Option<Row>, Failure>> + Send {
        let (lane, name) = (Arc::clone(&self.keeper), name.to_owned());
        self.begin(async move { keeper::get_row(&lane, name).await })
    }
}
