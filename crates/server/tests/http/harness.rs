//! A server on its own port, with its own store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jeton_auth::{Access, Grant, TableRule, TokenStore};
use jeton_core::{Format, Formats, OpId, TableSettings};
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
    /// Tokens by the names of their grants.
    tokens: Vec<(String, String)>,
}

/// A grant of rights in the tables that match a pattern.
pub fn grant(name: &str, pattern: &str, rights: &str) -> Grant {
    let rule = TableRule { pattern: pattern.parse().unwrap(), rights: rights.parse().unwrap() };
    Grant { tables: vec![rule], ..Grant::new(name) }
}

impl TestServer {
    pub fn new() -> Self {
        Self::with_options(|_| {})
    }

    pub fn with_options(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        change(&mut options);
        Self::start(tempfile::tempdir().unwrap(), options, Access::open_to_all())
    }

    /// A server on the store in this folder.
    pub fn in_folder(folder: tempfile::TempDir) -> Self {
        Self::start(folder, Options::default(), Access::open_to_all())
    }

    /// A server with a token for each grant, and the tables `clicks` and `stock`.
    pub fn with_tokens(grants: impl IntoIterator<Item = Grant>) -> Self {
        let mut store = TokenStore::new();
        let add = |(grant, seed): (Grant, u8)| {
            let name = grant.name.clone();
            let random = std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8));
            (name, store.add(grant, &random, 1).unwrap().reveal())
        };
        let tokens = grants.into_iter().zip(1..).map(add).collect();
        let access = Access::from_store(&store);
        let options = Options { backup_dir: Some(std::env::temp_dir()), ..Options::default() };
        let mut server = Self::start(tempfile::tempdir().unwrap(), options, access);
        server.tokens = tokens;
        server.table("clicks", &[Format::Uuid7]);
        server.table("stock", &[Format::Uuid7, Format::Event]);
        server
    }

    fn start(folder: tempfile::TempDir, service_options: Options, access: Access) -> Self {
        let options = jeton_engine::Options {
            shards: 2,
            cache_bytes: 1 << 20,
            dirty_bytes_max: 4 << 20,
            segment_bytes: 4 << 20,
            ..jeton_engine::Options::default()
        };
        let engine = Arc::new(Engine::open(folder.path(), options).unwrap());
        let service = Arc::new(Service::new(engine, Arc::new(access), service_options).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            let _sent_or_dropped = stopped.await;
        };
        let served = runtime.spawn(http::Server::new(service.clone()).unwrap().serve(listener, shutdown));
        Self {
            service,
            address,
            stop: Some(stop),
            served: Some(served),
            runtime: Some(runtime),
            folder: Some(folder),
            tokens: Vec::new(),
        }
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

    /// A client with the token of this name.
    pub fn client_as(&self, name: &str) -> Client {
        let (_, token) = self.tokens.iter().find(|(known, _)| known == name).unwrap();
        let mut client = self.client();
        client.token = Some(token.clone());
        client
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
        let folder = self.folder.take().unwrap();
        drop(self);
        Self::in_folder(folder)
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
    OpId::uuid7_from(millis, NEXT.fetch_add(1, Ordering::Relaxed).into()).to_string()
}

/// A new UUID of version 7.
pub fn uuid() -> String {
    uuid_at(millis())
}
