//! `jeton serve`: the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use jeton_access::{Access, may_listen};
use jeton_engine::Engine;
use jeton_server::{Service, resp};
use tokio::net::TcpListener;

use crate::failure::Failure;

/// Serve counters over RESP and HTTP
#[derive(Args)]
pub struct Serve {
    /// Where the data is; made if it is not there
    #[arg(long, default_value = "jeton-data")]
    data: PathBuf,
    /// Where clients of Redis come
    #[arg(long, default_value = "127.0.0.1:6380")]
    resp: SocketAddr,
    /// Where HTTP comes
    #[arg(long, default_value = "127.0.0.1:6381")]
    http: SocketAddr,
    /// Listen where everybody can come, although nobody has to show a token
    #[arg(long)]
    insecure: bool,
    /// Let FLUSHALL delete all counters
    #[arg(long)]
    allow_flush: bool,
}

impl Serve {
    /// Serves until it is told to stop.
    pub fn run(self) -> Result<()> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        let access = Arc::new(Access::open_to_all());
        for address in [self.resp, self.http] {
            may_listen(address, access.has_tokens(), self.insecure).map_err(anyhow::Error::msg)?;
        }
        let engine = Engine::open(&self.data, jeton_engine::Options::default()).map_err(|error| {
            let what = format!("cannot open the store in {}", self.data.display());
            Failure::of(error, what, "choose another directory with --data, or mend what is named above")
        })?;
        let options = jeton_server::Options { allow_flush: self.allow_flush, ..Default::default() };
        let service = Arc::new(Service::new(Arc::new(engine), access, options)?);
        let listener = TcpListener::bind(self.resp).await.map_err(|error| {
            Failure::of(
                error,
                format!("cannot listen on {}", self.resp),
                "choose another address with --resp",
            )
        })?;
        println!("jeton is ready: RESP on {}, data in {}", self.resp, self.data.display());
        resp::serve(service, listener, async {
            let _ctrl_c = tokio::signal::ctrl_c().await;
        })
        .await?;
        Ok(())
    }
}
