//! `jeton init`: creates the tables of transactions.

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_server::node::init_transactions;

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::output;

/// Create the tables of transactions in registers and databases
///
/// Reads the sections transactions, databases and procedures of the configuration file, creates missing
/// tables, and checks in each database that a branch can be prepared. Existing tables stay as they are; it
/// can be run again.
#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    flags: Flags,
}

impl Init {
    pub fn run(&self) -> Result<()> {
        let config = Config::load(&self.flags)?;
        let Some(transactions) = &config.transactions else {
            let fix = "declare [databases] and [procedures]: see docs/transactions.md";
            return Err(CliError::of(
                anyhow!("the configuration file has no [databases]"),
                "there is nothing to create",
                fix,
            ));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for line in runtime.block_on(init_transactions(transactions))? {
            output::line(&line)?;
        }
        Ok(())
    }
}
