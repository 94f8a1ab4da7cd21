//! `jeton serve`: the server, from its settings to its end.

mod banner;
mod listeners;
mod logging;
mod open_store;
mod reloader;
mod shutdown;

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use jeton_auth::{Access, UsageFile};
use jeton_server::tls::Tls;
use jeton_server::{Service, Transactions};

use self::listeners::BoundSockets;
pub use self::open_store::{explain, open};
use crate::cli_error::CliError;
use crate::config::{Config, Flags, Settings};
use crate::open_file_limit;
use crate::transactions;

/// Serve counters over the Redis protocol and HTTP
///
/// Without a flag it listens on this machine only, keeps its data in jeton-data, and wants no tokens. It stops on SIGTERM and Ctrl-C: what
/// is under way is answered first; a second signal ends it at once.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    /// Serves until it is told to stop.
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.flags)?;
        logging::begin(&config.settings);
        let (may, wanted) = (open_file_limit::raise(), open_file_limit::wanted(&config.settings));
        if may < wanted {
            tracing::warn!(
                may,
                wanted,
                "fewer files may be open than {} connections of each protocol need: clients will wait, or raise the limit (ulimit -Hn, \
                 LimitNOFILE in systemd), or lower --connections-max",
                config.settings.connections_max
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|why| {
            CliError::of(
                why,
                "the server could not start its threads",
                "see how many threads may be started: ulimit -u",
            )
        })?;
        runtime.block_on(serve(&config))
    }
}

async fn serve(config: &Config) -> Result<()> {
    let settings = &config.settings;
    let access = Arc::new(access(settings)?);
    let tls = tls(settings)?.map(Arc::new);
    let mut stopping = shutdown::listen()?;
    // The doors first, closed: whether the addresses are free is known at once, what is in the log may take a while.
    let doors = BoundSockets::bind(settings, access.has_tokens(), tls.is_some())?;
    let is_new = open_store::is_new(&settings.data);
    let (folder, options) = {
        let mut options = settings.engine_options();
        // Beside the connections: nobody has to wake another thread.
        options.runtime = Some(tokio::runtime::Handle::current());
        (settings.data.clone(), options)
    };
    let opened = tokio::task::spawn_blocking(move || open(&folder, options)).await;
    let engine = Arc::new(opened.map_err(|why| {
        CliError::of(why, "the store could not be opened", "report it, with what is written above")
    })??);
    let service =
        Service::new(engine.clone(), access.clone(), settings.service_options()).map_err(|why| {
            let what = format!("the default table {:?} could not be made", settings.default_table);
            CliError::of(why, what, "choose another name with --default-table")
        })?;
    let transactions = match &config.transactions {
        Some(declared) => {
            let transactions = Transactions::to_come();
            let number = u16::try_from(settings.server_number).unwrap_or(u16::MAX);
            transactions::begin(declared, number, &settings.data, transactions.clone()).await?;
            transactions
        }
        None => Transactions::none(),
    };
    let service = Arc::new(service.with_transactions(transactions));
    let used = used(settings, &access)?;
    let watching = reloader::begin(access, tls.clone(), engine.clone(), used)?;

    let open_doors = doors.open()?;
    banner::print(&banner::Greeting {
        data: &settings.data,
        is_new,
        tokens: settings.tokens.0.as_deref(),
        table: &settings.default_table,
        ca: settings.tls_cert.0.as_deref(),
        addresses: open_doors.addresses(),
    })?;
    open_doors.serve(&service, tls, &mut stopping).await?;
    watching.end();
    // Reads and writes the disk until all that was answered is where it belongs.
    let closed = tokio::task::spawn_blocking(move || engine.close()).await;
    closed
        .map_err(|why| CliError::of(why, "the store could not be closed", "start it again: it recovers"))?;
    tracing::info!("stopped");
    Ok(())
}

fn access(settings: &Settings) -> Result<Access> {
    let Some(file) = &settings.tokens.0 else { return Ok(Access::open_to_all()) };
    Access::from_file(file).map_err(|why| {
        let what = format!("the file of tokens {} cannot be used", file.display());
        let fix = format!(
            "make a token: jeton token create --tokens {} --name NAME --table TABLE --right read",
            file.display()
        );
        CliError::of(why, what, fix)
    })
}

/// Where it is kept what tokens have created, which is in force again; nothing without tokens. Not before the store is open: nobody else
/// has the directory then.
fn used(settings: &Settings, access: &Access) -> Result<Option<UsageFile>> {
    if !access.has_tokens() {
        return Ok(None);
    }
    let path = settings.data.join(UsageFile::NAME);
    let file = UsageFile::new(&path);
    let used = file.read().map_err(|why| {
        let fix = format!(
            "mend {0}, or remove it: then all limits on tables and counters begin anew",
            path.display()
        );
        CliError::of(why, "what tokens have created so far is not known", fix)
    })?;
    for used in &used {
        // A token that is no more has used nothing.
        let _is_there = access.set_used(used);
    }
    Ok(Some(file))
}

fn tls(settings: &Settings) -> Result<Option<Tls>> {
    match (&settings.tls_cert.0, &settings.tls_key.0) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Tls::open(cert, key).map(Some).map_err(|why| {
            CliError::of(
                why,
                "the certificate cannot be used",
                "name PEM files with --tls-cert and --tls-key that go together",
            )
        }),
        _ => Err(CliError {
            what: "a certificate and its key are two settings, and only one is given".into(),
            fix: "give both: --tls-cert FILE and --tls-key FILE".into(),
        }
        .into()),
    }
}
