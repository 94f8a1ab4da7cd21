//! A database server from the system's packages, in a folder of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use rustix::process::Signal;

use crate::server::Server;

/// What differs between database products. The value has the settings.
pub trait Flavour {
    /// The product name, for messages.
    const NAME: &'static str;
    /// The name of the data folder and of the log file.
    const FOLDER: &'static str;
    /// The signal for an orderly shutdown that does not wait for clients.
    const SHUTDOWN: Signal;
    /// The signal that ends the server when the test process dies.
    const PARENT_DEATH: Signal;

    /// Creates the data folder.
    fn initialize(&self, data: &Path) -> Result<()>;

    /// The command that runs the server.
    fn command(&self, data: &Path, port: u16) -> Result<Command>;

    /// Opens a session, to see whether the server is ready.
    fn probe(address: SocketAddr) -> Result<()>;

    /// The URL for clients.
    fn url(address: SocketAddr) -> String;
}

/// A database server with a folder and an address of its own.
pub struct Database<F: Flavour> {
    server: Option<Server>,
    folder: PathBuf,
    address: SocketAddr,
    pub(crate) flavour: F,
}

impl<F: Flavour> Database<F> {
    /// Initializes a database in a folder and starts it. Other users must be able to traverse the folder.
    pub(crate) fn create(folder: &Path, flavour: F) -> Result<Self> {
        let address = crate::free_address()?;
        let mut database = Self { server: None, folder: folder.to_owned(), address, flavour };
        database.flavour.initialize(&database.data())?;
        database.launch()?;
        Ok(database)
    }

    fn data(&self) -> PathBuf {
        self.folder.join(F::FOLDER)
    }

    fn launch(&mut self) -> Result<()> {
        let command = self.flavour.command(&self.data(), self.address.port())?;
        let log = self.folder.join(format!("{}.log", F::FOLDER));
        let mut server = Server::start(F::NAME, command, F::PARENT_DEATH, log)?;
        server.await_ready(|| F::probe(self.address))?;
        self.server = Some(server);
        Ok(())
    }

    /// The listen address. A restart keeps it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        Self::url_by(self.address)
    }

    /// The URL for clients that connect by another address, such as that of a [`Proxy`](crate::Proxy).
    pub fn url_by(address: SocketAddr) -> String {
        F::url(address)
    }

    /// The process id of the server, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::process)
    }

    /// Kills all processes of the server.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Shuts the server down in order: it rolls back transactions and closes connections.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(F::SHUTDOWN);
        }
    }

    /// Stops the server if it runs, and starts it on the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        self.launch()
    }

    /// Suspends all processes of the server. Connections stay open.
    pub fn pause(&self) {
        if let Some(server) = &self.server {
            server.pause();
        }
    }

    /// Resumes the processes that [`pause`](Self::pause) suspended.
    pub fn resume(&self) {
        if let Some(server) = &self.server {
            server.resume();
        }
    }
}
