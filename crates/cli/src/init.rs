//! `jeton init`: what transactions need in the databases.

use anyhow::{Result, anyhow};
use clap::Args;

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::{output, transactions};

/// Make what transactions need in registers and databases
///
/// Reads the sections transactions, databases and procedures of the configuration file, makes the tables that are missing, and tries out in
/// each database whether a branch can be prepared. It changes nothing that is there, and can be run again.
#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    flags: Flags,
}

impl Init {
    pub fn run(&self) -> Result<()> {
        let config = Config::load(&self.flags)?;
        let Some(declared) = &config.transactions else {
            let fix = "declare [databases] and [procedures]: see docs/transactions.md";
            return Err(CliError::of(
                anyhow!("the configuration file has no [databases]"),
                "there is nothing to make",
                fix,
            ));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for line in runtime.block_on(transactions::init(declared))? {
            output::line(&line)?;
        }
        Ok(())
    }
}
