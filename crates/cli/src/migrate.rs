//! `jeton migrate`: converts a data directory of an older version.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use jeton_register::MigrateReport;
use jeton_server::node::TRANSACTIONS_FOLDER;

use crate::cli_error::CliError;
use crate::output;

/// Convert a data directory of an older version
///
/// Converts the embedded registers of transactions to the present format. The server must be stopped. The old
/// registers are kept in transactions.old. Counters need no conversion. It can be run again, also after it
/// was interrupted.
#[derive(Args)]
pub struct Migrate {
    /// The data directory
    data: PathBuf,
}

impl Migrate {
    pub fn run(&self) -> Result<()> {
        let folder = self.data.join(TRANSACTIONS_FOLDER);
        let report = jeton_register::migrate(&folder).map_err(|why| {
            let what = format!("the registers in {} cannot be converted", folder.display());
            CliError::of(
                why,
                what,
                "fix the cause, then run jeton migrate again; the old registers are unchanged",
            )
        })?;
        output::line(&match report {
            MigrateReport::UpToDate => format!("{}: nothing to convert", folder.display()),
            MigrateReport::Converted { registers, old } => format!(
                "{}: converted {registers} registers; remove {} when the server runs",
                folder.display(),
                old.display()
            ),
        })
    }
}
