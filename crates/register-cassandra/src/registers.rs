//! The engine: a session with the cluster on a thread of its own, so that futures complete on any executor.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use jeton_register::{
    Admission, Admitted, Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit,
    WriteResult,
};
use jeton_wal::spawn_aborting;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::address::Address;
use crate::cluster::{self, Cluster};
use crate::failure::closed;
use crate::lanes::{Lanes, Permit, Request};
use crate::log_writer::Write;
use crate::node_check::{self, NodeReport};
use crate::open_error::OpenError;
use crate::options::Options;
use crate::retirement::Retirement;
use crate::{blobs, objects, reader, schema};

/// Registers in Cassandra. Dropping it executes the writes in the queues and closes the connections.
pub struct CassandraRegisters {
    handle: Handle,
    parts: Arc<Parts>,
    write_admission: Arc<Admission>,
    /// For all other requests.
    request_admission: Arc<Admission>,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Parts {
    cluster: Arc<Cluster>,
    retirement: Arc<Retirement>,
    lanes: Arc<Lanes>,
    /// The last check of the nodes. While one of them is unsafe, writes are refused.
    nodes: Mutex<Result<NodeReport, OpenError>>,
}

/// Creates the keyspace with this number of copies in each datacenter, and the tables, if they are missing.
/// To be called once, by one program: Cassandra does not agree on concurrent creations.
pub async fn create_schema(url: &str, replicas: u8) -> Result<(), OpenError> {
    let address = Address::parse(url).map_err(OpenError::Url)?;
    let (sender, result) = oneshot::channel();
    let work = async move {
        let mut options = Options::default();
        // Nodes create the tables one after the other.
        options.request_timeout *= 10;
        let session = cluster::connect(&address, &options).await?;
        schema::create(&session, &address.keyspace, replicas).await
    };
    let thread = spawn_aborting("jeton-cassandra", move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        drop(sender.send(match runtime {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(OpenError::Unreachable(error.to_string())),
        }));
    });
    thread.map_err(|error| OpenError::Unreachable(error.to_string()))?;
    result.await.map_err(|_| OpenError::Unreachable("the thread ended".into()))?
}

async fn connect(address: &Address, options: &Options) -> Result<Arc<Parts>, OpenError> {
    let session = cluster::connect(address, options).await?;
    schema::check(&session, &address.keyspace).await?;
    let report = node_check::check(&session, options).await?;
    let cluster = Arc::new(Cluster::new(session, address, options).await?);
    let retirement = Arc::<Retirement>::default();
    let lanes = Lanes::new(Arc::clone(&cluster), Arc::clone(&retirement));
    Ok(Arc::new(Parts { cluster, retirement, lanes, nodes: Mutex::new(Ok(report)) }))
}

impl Parts {
    /// Checks the nodes until the engine is closed: a node may return with other settings.
    async fn check_nodes(&self, options: Options) {
        loop {
            tokio::time::sleep(options.check_interval).await;
            let checked = node_check::check(self.cluster.session(), &options).await;
            // A cluster that cannot be reached is no reason to refuse what it decides.
            if !matches!(checked, Err(OpenError::Unreachable(_))) {
                *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = checked;
            }
        }
    }
}

impl CassandraRegisters {
    /// Connects to a cluster that has the [tables](create_schema), and checks the settings of its nodes.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let address = Address::parse(url).map_err(OpenError::Url)?;
        let failed = |error: std::io::Error| OpenError::Unreachable(error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let write_admission = Admission::new(options.in_flight_writes_max, options.in_flight_bytes_max);
        let request_admission = Admission::new(options.in_flight_requests_max, usize::MAX);
        let (opened, result) = oneshot::channel();
        let (close, closed) = oneshot::channel::<()>();
        let thread = spawn_aborting("jeton-cassandra", move || {
            runtime.block_on(async move {
                let parts = match connect(&address, &options).await {
                    Ok(parts) => parts,
                    Err(error) => return drop(opened.send(Err(error))),
                };
                drop(opened.send(Ok(Arc::clone(&parts))));
                tokio::select! {
                    _ = closed => {}
                    () = parts.check_nodes(options) => {}
                }
                parts.lanes.drained().await;
            });
        });
        let thread = Some(thread.map_err(failed)?);
        let parts = result.await.map_err(|_| OpenError::Unreachable("the thread ended".into()))??;
        Ok(Self { handle, parts, write_admission, request_admission, close: Some(close), thread })
    }

    /// What the last check of the nodes found. While a node is unsafe, writes are refused.
    pub fn nodes(&self) -> Result<NodeReport, OpenError> {
        self.parts.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reserve(&self, batch: &Batch, permit: WritePermit) -> Result<WritePermit, Error> {
        let (count, bytes) = (batch.len(), batch.value_bytes());
        let admitted = permit.reserved::<Admitted>();
        let covered = admitted.is_some_and(|admitted| admitted.covers(&self.write_admission, count, bytes));
        if covered { Ok(permit) } else { self.admit(count, bytes) }
    }

    /// Splits a batch by log, and submits the parts. Returns where the results of the parts will be, with the
    /// positions of their writes.
    fn submit(&self, batch: &Batch, permit: WritePermit) -> Result<Vec<PartResponse>, Error> {
        self.limits().check(batch)?;
        let permit = Permit::new(Mutex::new(self.reserve(batch, permit)?));
        self.check_nodes()?;
        let mut parts: BTreeMap<LogId, (Vec<usize>, Vec<Write>)> = BTreeMap::new();
        for (place, (log, slot, value)) in batch.iter().enumerate() {
            let (places, writes) = parts.entry(log).or_default();
            places.push(place);
            writes.push((slot, Bytes::copy_from_slice(value)));
        }
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        for (log, (places, writes)) in parts {
            let (response, receiver) = oneshot::channel();
            requests.push((log, Request::Write { writes, response, permit: Arc::clone(&permit) }));
            responses.push((places, receiver));
        }
        let _runtime = self.handle.enter();
        self.parts.lanes.submit(requests);
        Ok(responses)
    }

    fn check_nodes(&self) -> Result<(), Error> {
        self.nodes().map(drop).map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Starts a request, which completes also if no caller waits for it.
    fn start_request<T, W, F>(&self, work: W) -> impl Future<Output = Result<T, Error>> + Send + use<T, W, F>
    where
        T: Send + 'static,
        W: FnOnce(Arc<Parts>) -> F,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let started = self.request_admission.reserve(1, 0).map(|admitted| {
            let work = work(Arc::clone(&self.parts));
            self.handle.spawn(async move {
                let _admitted = admitted;
                work.await
            })
        });
        async move { started?.await.unwrap_or_else(|_| Err(closed())) }
    }
}

/// The positions of the writes of a part, and their results.
type PartResponse = (Vec<usize>, oneshot::Receiver<Result<Vec<WriteResult>, Error>>);

/// The results of all parts. A failure of some of them is a failure of the batch, and unknown if others were
/// executed.
async fn joined(len: usize, parts: Vec<PartResponse>) -> Result<Vec<WriteResult>, Error> {
    let mut results = vec![None; len];
    let (mut failure, mut is_executed) = (None, false);
    for (places, response) in parts {
        let lost = |_| Err(Error::Unknown("the engine was closed before the response".into()));
        match response.await.unwrap_or_else(lost) {
            Ok(part) => {
                is_executed = true;
                places.into_iter().zip(part).for_each(|(place, result)| results[place] = Some(result));
            }
            Err(error @ (Error::Unknown(_) | Error::Damaged(_))) => failure = Some(error),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(results.into_iter().flatten().collect()),
        Some(Error::Unavailable(text) | Error::Busy(text)) if is_executed => Err(Error::Unknown(text)),
        Some(error) => Err(error),
    }
}

impl Drop for CassandraRegisters {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that panics aborts the process");
        }
    }
}

impl Registers for CassandraRegisters {
    fn admit(&self, writes: usize, value_bytes: usize) -> Result<WritePermit, Error> {
        self.limits().check_batch(writes, value_bytes)?;
        self.write_admission.reserve(writes, value_bytes).map(WritePermit::holding)
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        let (len, submitted) = (batch.len(), self.submit(&batch, permit));
        async move { joined(len, submitted?).await }
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        self.start_request(move |parts| async move {
            reader::read(&parts.cluster, &parts.retirement, log, from, limit).await
        })
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        self.start_request(move |parts| async move {
            reader::extent(&parts.cluster, &parts.retirement, log).await
        })
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        let (response, receiver) = oneshot::channel();
        let admitted =
            self.check_nodes().and_then(|()| self.request_admission.reserve(1, 0)).map(|admitted| {
                let permit = Permit::new(Mutex::new(WritePermit::holding(admitted)));
                let _runtime = self.handle.enter();
                self.parts.lanes.submit(vec![(log, Request::Trim { through, response, permit })]);
            });
        async move {
            admitted?;
            receiver.await.unwrap_or_else(|_| Err(closed()))
        }
    }

    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        let checked = self.check_nodes();
        self.start_request(move |parts| async move {
            checked?;
            parts.retirement.retire(&parts.cluster, kind, below).await
        })
    }

    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        let (checked, name) = (self.check_nodes(), name.to_owned());
        self.start_request(move |parts| async move {
            checked?;
            blobs::put(&parts.cluster, &name, blob).await
        })
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        let name = name.to_owned();
        self.start_request(move |parts| async move { blobs::get(&parts.cluster, &name).await })
    }

    fn blobs(&self, prefix: &str) -> impl Future<Output = Result<Vec<(String, Blob)>, Error>> + Send {
        let prefix = prefix.to_owned();
        self.start_request(move |parts| async move { blobs::list(&parts.cluster, &prefix).await })
    }

    fn put_object(&self, name: &str, bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send {
        let (checked, name) = (self.check_nodes(), name.to_owned());
        self.start_request(move |parts| async move {
            checked?;
            objects::put(&parts.cluster, &name, bytes).await
        })
    }

    fn get_object(&self, name: &str) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send {
        let name = name.to_owned();
        self.start_request(move |parts| async move { objects::get(&parts.cluster, &name).await })
    }

    fn delete_objects(&self, names: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        self.start_request(move |parts| async move { objects::delete(&parts.cluster, &names).await })
    }

    fn list_objects(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.start_request(
            move |parts| async move { objects::list(&parts.cluster, &prefix, &after, limit).await },
        )
    }
}
