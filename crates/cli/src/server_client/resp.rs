//! The product's client, for commands that wait for their results.

use std::time::Duration;

use anyhow::Result;
use jeton_client::{Client, Error, Options, Outcome, Status};
use tokio::runtime::{Builder, Runtime};

use super::ServerArgs;
use super::error_text::error_of;
use crate::cli_error::CliError;

/// A blocking client.
pub struct Resp {
    pub client: Client,
    runtime: Runtime,
}

impl Resp {
    /// Connects. A server that does not respond is reported at once: nothing was sent.
    pub fn connect(server: &ServerArgs) -> Result<Self> {
        Self::with(server, server.timeout(), Builder::new_current_thread())
    }

    /// Like `connect`, with another time for all attempts of an operation, and another runtime. In the
    /// runtime of one thread, operations are sent in the order in which they are spawned.
    pub fn with(server: &ServerArgs, deadline: Duration, runtime: Builder) -> Result<Self> {
        let (runtime, options) = (build(runtime)?, Self::options(server, deadline)?);
        let client = runtime.block_on(async {
            let client = Client::new(options)?;
            match client.probe().await {
                // A server that is starting.
                Err(Error::Unreachable { last: jeton_client::AttemptError::Server(_) })
                | Err(Error::Busy { .. })
                | Ok(()) => Ok(client),
                Err(error) => Err(error),
            }
        });
        Ok(Self { client: client.map_err(error_of)?, runtime })
    }

    /// Options of a client with one connection.
    pub fn options(server: &ServerArgs, deadline: Duration) -> Result<Options> {
        let (token, tls) = (server.token()?, server.tls()?);
        // Nodes of a cluster are separated by commas.
        Ok(Options { token, tls, deadline, connections: 1, ..Options::to(server.resp().split(',')) })
    }

    /// Waits for a future.
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        self.runtime.block_on(future.into_future())
    }
}

/// Builds a runtime for a client.
pub fn build(mut runtime: Builder) -> Result<Runtime> {
    runtime.enable_all().build().map_err(|error| {
        CliError::of(error, "the client could not start its threads", "check the limit of threads: ulimit -u")
    })
}

/// The word for the status of an outcome.
pub fn status_of(outcome: &Outcome) -> &'static str {
    match (outcome.status, outcome.replayed) {
        (Status::Applied, false) => "applied",
        (Status::Applied, true) => "replayed",
        (Status::Refused, false) => "refused",
        (Status::Refused, true) => "refused-replayed",
        _ => "probably-seen",
    }
}
