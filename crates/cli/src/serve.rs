//! `jeton serve`: runs a server.

mod allocator;
mod banner;
mod logging;

use anyhow::Result;
use clap::Args;
use jeton_server::node::Node;

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::open_file_limit;

/// Run a server for counters over the Redis protocol and HTTP
///
/// Without flags it listens on this machine only, stores its data in jeton-data, and requires no tokens.
/// SIGTERM and Ctrl-C stop it after the requests in flight; a second signal stops it at once.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    pub fn run(self) -> Result<()> {
        // Before any thread starts.
        allocator::return_freed_memory();
        let config = Config::load(&self.flags)?;
        logging::init(&config.settings);
        let (limit, needed) = (open_file_limit::raise(), open_file_limit::needed(&config.settings));
        if limit < needed {
            tracing::warn!(
                limit,
                needed,
                "the limit of open files is too low for {} connections per protocol: raise it (ulimit -Hn, \
                 LimitNOFILE in systemd) or lower --connections-max",
                config.settings.connections_max
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CliError::of(
                error,
                "the server could not start its threads",
                "check the limit of threads: ulimit -u",
            )
        })?;
        runtime.block_on(serve(&config))
    }
}

async fn serve(config: &Config) -> Result<()> {
    let settings = &config.settings;
    let node = Node::start(config.node_config()).await?;
    banner::print(&banner::Banner {
        data: &settings.data,
        cluster: node.cluster(),
        is_new: node.is_new(),
        tokens: settings.tokens.0.as_deref(),
        table: &settings.default_table,
        ca: settings.tls_cert.0.as_deref(),
        addresses: node.addresses(),
    })?;
    Ok(node.run().await?)
}
