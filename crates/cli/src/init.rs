//! `jeton init`: creates the tables of a cluster and of transactions.

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_server::node::{init_cluster, init_transactions};

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::output;

/// Create the tables of a cluster, and those of transactions
///
/// With --cluster, creates missing tables in the database of the cluster and founds the cluster. With the
/// sections transactions, databases and procedures of the configuration file, creates missing tables there,
/// and checks in each database that a branch can be prepared. Existing tables stay as they are; it can be run
/// again.
#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    flags: Flags,
}

impl Init {
    pub fn run(&self) -> Result<()> {
        let config = Config::load(&self.flags)?;
        if config.transactions.is_none() && config.cluster.is_none() {
            let fix = "name the database of a cluster with --cluster (docs/cluster.md), or declare [databases] and \
                       [procedures] (docs/transactions.md)";
            return Err(CliError::of(
                anyhow!("there is no --cluster, and the configuration file has no [databases]"),
                "there is nothing to create",
                fix,
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if let Some(cluster) = &config.cluster {
            let stripes = runtime.block_on(init_cluster(&cluster.url, cluster.stripes))?;
            output::line(&format!("cluster: ready, {stripes} stripes"))?;
        }
        if let Some(transactions) = &config.transactions {
            for line in runtime.block_on(init_transactions(transactions))? {
                output::line(&line)?;
            }
        }
        Ok(())
    }
}
