//! A Jeton server in the test process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton_auth::Access;
use jeton_core::{Format, Formats, MissingIdPolicy, TableSettings};
use jeton_engine::{Engine, Options as EngineOptions};
use jeton_server::{Options, Service, resp};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, TIMEOUT};

/// A server on a free port with its own store.
pub struct Server {
    folder: TempDir,
    runtime: Runtime,
    running: Option<Running>,
    options: Options,
    access: Arc<Access>,
}

struct Running {
    service: Arc<Service>,
    port: u16,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// A server with a table `any` of opaque ids, and a client.
    pub fn with_any() -> (Self, Client) {
        let (server, client) = Self::with_client();
        server.table("any", opaque());
        (server, client)
    }

    /// A server with flushing allowed, and a client.
    pub fn with_client() -> (Self, Client) {
        let server = Self::start();
        let client = server.client();
        (server, client)
    }

    /// Starts a server with flushing allowed.
    pub fn start() -> Self {
        Self::with(Options { allow_flush: true, ..Options::default() })
    }

    pub fn with(options: Options) -> Self {
        Self::with_access(options, Access::open_to_all())
    }

    pub fn with_access(options: Options, access: Access) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { folder, runtime, running: None, options, access: Arc::new(access) };
        server.run();
        server
    }

    fn run(&mut self) {
        let options = EngineOptions {
            shards: 2,
            segment_bytes: 16 << 20,
            cache_bytes: 8 << 20,
            ..EngineOptions::default()
        };
        let engine = Arc::new(Engine::open(self.folder.path(), options).unwrap());
        let service = Arc::new(Service::new(engine, self.access.clone(), self.options.clone()).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let until = async { drop(stopped.await) };
        let serving = self.runtime.spawn(resp::serve(service.clone(), listener, until));
        self.running = Some(Running { service, port, stop, serving });
    }

    fn stop(&mut self) {
        let Running { service, stop, serving, .. } = self.running.take().expect("the server is running");
        let _may_be_stopped = stop.send(());
        self.runtime.block_on(serving).unwrap().unwrap();
        service.engine.close();
    }

    /// Restarts the server on the same store and reconnects, if `restarted`.
    pub fn reconnect(&mut self, client: Client, restarted: bool) -> Client {
        if !restarted {
            return client;
        }
        drop(client);
        self.restart();
        self.client()
    }

    pub fn restart(&mut self) {
        self.stop();
        self.run();
    }

    /// Restarts the server on the same store with other options.
    pub fn restart_with(&mut self, options: Options) {
        self.options = options;
        self.restart();
    }

    pub fn port(&self) -> u16 {
        self.running.as_ref().expect("the server is running").port
    }

    pub fn service(&self) -> &Arc<Service> {
        &self.running.as_ref().expect("the server is running").service
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port())
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub fn table(&self, name: &str, settings: TableSettings) {
        self.service().engine.create_table(name, settings).unwrap();
    }

    pub fn millis(&self) -> u64 {
        self.service().millis()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.stop();
        }
    }
}

/// Settings that accept opaque ids and writes without an id.
pub fn opaque() -> TableSettings {
    TableSettings {
        formats: Formats::only(Format::Opaque),
        without_id: MissingIdPolicy::AtMostOnce,
        ..TableSettings::default()
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
