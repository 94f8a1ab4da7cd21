//! PostgreSQL from the system's packages.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::server::{Server, User, bound_command, run};

/// Who may do everything in it, without a password.
pub const USER: &str = "tester";

/// The user that the package made, for whom is not allowed to run it as himself.
const OWNER: &str = "postgres";

/// What is not as it comes.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("max_prepared_transactions", "200"),
    ("max_connections", "300"),
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
];

/// A PostgreSQL with a folder and an address of its own.
pub struct Postgres {
    server: Option<Server>,
    folder: PathBuf,
    address: SocketAddr,
    settings: BTreeMap<String, String>,
}

/// The folder with its programs: Debian keeps the versions apart, and none of them in the path.
fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| folder.join("initdb").is_file())
        .max_by_key(|(version, _)| *version);
    let in_path =
        || std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| folder.join("initdb").is_file());
    newest.map(|(_, folder)| folder).or_else(in_path).context("PostgreSQL is not installed (no `initdb`)")
}

/// The version that is installed, in its own words.
pub fn version() -> String {
    let says = |folder: PathBuf| Command::new(folder.join("postgres")).arg("--version").output().ok();
    let output = programs().ok().and_then(says).map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().next().unwrap_or("PostgreSQL is not installed").to_owned()
}

impl Postgres {
    /// Makes a database in a folder, and starts it. The settings are added to ours, and win. The folder must be one that other
    /// users may pass through.
    pub fn start(folder: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut postgres = Self {
            server: None,
            folder: folder.to_owned(),
            address: crate::free_address()?,
            settings: SETTINGS.iter().chain(settings).map(own).collect(),
        };
        let user = User::unless_allowed(OWNER);
        User::make_folder(user, &postgres.data())?;
        let mut command = bound_command(&programs()?.join("initdb"), user, Signal::KILL);
        command.args(["-U", USER, "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync", "-D"]);
        command.arg(postgres.data()).current_dir("/");
        run("initdb", command)?;
        postgres.launch()?;
        Ok(postgres)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    fn launch(&mut self) -> Result<()> {
        let program = programs()?.join("postgres");
        let mut command = bound_command(&program, User::unless_allowed(OWNER), Signal::QUIT);
        command.arg("-D").arg(self.data()).arg("-p").arg(self.address.port().to_string()).current_dir("/");
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let log = self.folder.join("postgres.log");
        let mut server = Server::start("PostgreSQL", command, Signal::QUIT, log)?;
        server.await_ready(|| greet(self.address))?;
        self.server = Some(server);
        Ok(())
    }

    /// Where it listens, now and after every start.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client connects with, as text.
    pub fn url(&self) -> String {
        Self::url_by(self.address)
    }

    /// What a client connects with that goes by another address, such as that of a [`Proxy`](crate::Proxy).
    pub fn url_by(address: SocketAddr) -> String {
        format!("postgresql://{USER}@{address}/postgres")
    }

    /// The first of its processes, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::process)
    }

    /// Changes a setting as of the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Kills all of its processes at once.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Ends it in order: transactions are rolled back, connections closed.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Signal::INT);
        }
    }

    /// Starts it where it was, after it was ended in order if it still ran.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        self.launch()
    }

    /// Stops all of its processes where they are; connections stay open.
    pub fn pause(&self) {
        if let Some(server) = &self.server {
            server.pause();
        }
    }

    /// Lets them go on.
    pub fn resume(&self) {
        if let Some(server) = &self.server {
            server.resume();
        }
    }
}

/// Opens a session and closes it.
fn greet(address: SocketAddr) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let words = format!("user\0{USER}\0database\0postgres\0\0");
    let mut hello = (words.len() as u32 + 8).to_be_bytes().to_vec();
    hello.extend(196_608_u32.to_be_bytes());
    hello.extend(words.as_bytes());
    stream.write_all(&hello)?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    // `R`: who we are is fine. `E`: it is starting up, or ending.
    if kind != *b"R" {
        bail!("PostgreSQL answers `{}`", kind[0] as char);
    }
    stream.write_all(b"X\0\0\0\x04")?;
    Ok(())
}
