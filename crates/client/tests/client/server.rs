//! A server in the test process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use jeton_auth::Access;
use jeton_engine::Engine;
use jeton_server::{Service, resp};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub struct Server {
    pub address: SocketAddr,
    pub service: Arc<Service>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts on a free port.
    pub async fn start(folder: &Path) -> Self {
        Self::start_at(folder, "127.0.0.1:0".parse().unwrap(), Access::open_to_all()).await
    }

    pub async fn start_at(folder: &Path, address: SocketAddr, access: Access) -> Self {
        let folder = folder.to_path_buf();
        let open = move || {
            let options = jeton_engine::Options { shards: 1, segment_bytes: 4 << 20, ..Default::default() };
            let engine = Arc::new(Engine::open(&folder, options).expect("the store opens"));
            Service::new(engine, Arc::new(access), jeton_server::Options::default())
                .expect("the default table exists")
        };
        let service = Arc::new(tokio::task::spawn_blocking(open).await.expect("opening does not panic"));
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("the port is free");
        let serving = tokio::spawn({
            let service = service.clone();
            async move {
                resp::serve(service, listener, std::future::pending()).await.expect("the listener works")
            }
        });
        Self { address, service, serving }
    }

    /// Stops as abruptly as a process can stop itself: connections break, and operations in flight are
    /// dropped.
    pub async fn stop(self) {
        self.serving.abort();
        let _aborted = self.serving.await;
        let service = self.service;
        tokio::task::spawn_blocking(move || service.engine.close()).await.expect("closing does not panic");
    }
}
