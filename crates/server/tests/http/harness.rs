//! A server on its own port, with its own store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jeton_auth::Access;
use jeton_core::{Format, Formats, TableSettings};
use jeton_engine::Engine;
use jeton_server::{Options, Service, http};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::client::Client;

pub struct TestServer {
    pub service: Arc<Service>,
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
    runtime: Option<Runtime>,
    folder: Option<tempfile::TempDir>,
}

/// The configuration of a server.
pub struct Start {
    pub options: Options,
    pub access: Access,
    folder: Option<tempfile::TempDir>,
}

impl Default for Start {
    fn default() -> Self {
        Self { options: Options::default(), access: Access::open_to_all(), folder: None }
    }
}

impl Start {
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Uses the store in this folder.
    pub fn folder(mut self, folder: tempfile::TempDir) -> Self {
        self.folder = Some(folder);
        self
    }

    pub fn start(self) -> TestServer {
        let folder = self.folder.unwrap_or_else(|| tempfile::tempdir().unwrap());
        let options = jeton_engine::Options {
            shards: 2,
            cache_bytes: 1 << 20,
            dirty_bytes_max: 4 << 20,
            segment_bytes: 4 << 20,
            ..jeton_engine::Options::default()
        };
        let engine = Arc::new(Engine::open(folder.path(), options).unwrap());
        let service = Arc::new(Service::new(engine, Arc::new(self.access), self.options).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            let _sent_or_dropped = stopped.await;
        };
        let served = runtime.spawn(http::serve(service.clone(), listener, shutdown));
        TestServer {
            service,
            address,
            stop: Some(stop),
            served: Some(served),
            runtime: Some(runtime),
            folder: Some(folder),
        }
    }
}

impl TestServer {
    pub fn new() -> Self {
        Start::default().start()
    }

    /// A server with default options, and a client.
    pub fn with_client() -> (Self, Client) {
        let server = Self::new();
        let client = server.client();
        (server, client)
    }

    /// A server with another table, which accepts ids of these formats, and a client.
    pub fn with_table(name: &str, formats: &[Format]) -> (Self, Client) {
        let (server, client) = Self::with_client();
        server.table(name, formats);
        (server, client)
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("the runtime exists until drop").block_on(work)
    }

    /// Creates a table that accepts ids of these formats.
    pub fn table(&self, name: &str, formats: &[Format]) {
        let formats = formats.iter().fold(Formats::NONE, |all, one| all.and(*one));
        self.table_with(name, TableSettings { formats, ..TableSettings::default() });
    }

    pub fn table_with(&self, name: &str, settings: TableSettings) {
        self.service.engine.create_table(name, settings).unwrap();
    }

    /// Starts the shutdown.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Shuts down and waits for the end.
    pub fn stop(&mut self) {
        self.begin_stop();
        if let (Some(served), Some(runtime)) = (self.served.take(), &self.runtime) {
            runtime.block_on(served).unwrap().unwrap();
        }
    }

    /// Shuts down, closes the store, and starts again on it.
    pub fn restart(mut self) -> TestServer {
        self.stop();
        self.service.engine.close();
        let folder = self.folder.take();
        drop(self);
        Start { folder, ..Start::default() }.start()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

pub fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A new UUID of version 7 with this time.
pub fn uuid_at(millis: u64) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let hex = format!("{millis:012x}7000{:016x}", 0x8000_0000_0000_0000_u64 | number);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A new UUID of version 7.
pub fn uuid() -> String {
    uuid_at(millis())
}
