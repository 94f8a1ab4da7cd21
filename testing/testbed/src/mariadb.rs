//! MariaDB from the system's packages.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::server::{Server, User, bound_command, run};

/// The user that the package made, for whom is not allowed to run it as himself.
const OWNER: &str = "mysql";

/// What is not as it comes. The package's own settings are not read: they are for another instance.
const SETTINGS: &[&str] = &[
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    "--max-connections=300",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
];

/// The program: Debian keeps it where only root looks.
fn program() -> &'static Path {
    let usual = Path::new("/usr/sbin/mariadbd");
    if usual.is_file() { usual } else { Path::new("mariadbd") }
}

/// A MariaDB with a folder and an address of its own.
pub struct MariaDb {
    server: Option<Server>,
    folder: PathBuf,
    address: SocketAddr,
    settings: Vec<String>,
}

impl MariaDb {
    /// Makes a database called `jeton` in a folder, and starts it, with a binary log or without. The settings (`--name=value`) are added to ours, and win. The
    /// folder must be one that other users may pass through.
    pub fn start(folder: &Path, binlog: bool, settings: &[&str]) -> Result<Self> {
        let mut mariadb = Self {
            server: None,
            folder: folder.to_owned(),
            address: crate::free_address()?,
            settings: SETTINGS.iter().chain(settings).map(|setting| (*setting).to_owned()).collect(),
        };
        if binlog {
            mariadb.settings.extend(["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"].map(Into::into));
        }
        let user = User::unless_allowed(OWNER);
        User::make_folder(user, &mariadb.data())?;
        let mut command = bound_command("mariadb-install-db".as_ref(), user, Signal::KILL);
        command.args(["--no-defaults", "--basedir=/usr", "--skip-test-db", "--innodb-log-file-size=16M"]);
        command.args(["--auth-root-authentication-method=normal", "--skip-name-resolve"]);
        command.arg(format!("--datadir={}", mariadb.data().display())).current_dir("/");
        run("mariadb-install-db", command)?;
        // A database is a folder.
        User::make_folder(user, &mariadb.data().join("jeton"))?;
        mariadb.launch()?;
        Ok(mariadb)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("mariadb")
    }

    fn launch(&mut self) -> Result<()> {
        let mut command = bound_command(program(), User::unless_allowed(OWNER), Signal::KILL);
        command.arg("--no-defaults").arg(format!("--datadir={}", self.data().display()));
        command.arg(format!("--port={}", self.address.port())).args(&self.settings);
        command.arg(format!("--socket={}", self.data().join("socket").display()));
        command.arg(format!("--pid-file={}", self.data().join("pid").display())).current_dir("/");
        let log = self.folder.join("mariadb.log");
        let mut server = Server::start("MariaDB", command, Signal::KILL, log)?;
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
        format!("mysql://root@{address}/jeton")
    }

    /// Its process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::process)
    }

    /// Adds a setting (`--name=value`) as of the next start.
    pub fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Signal::TERM);
        }
    }

    /// Starts it where it was, after it was ended in order if it still ran.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        self.launch()
    }

    /// Stops it where it is; connections stay open.
    pub fn pause(&self) {
        if let Some(server) = &self.server {
            server.pause();
        }
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(server) = &self.server {
            server.resume();
        }
    }
}

/// Waits for the first words of a session: it sends them when it is ready.
fn greet(address: SocketAddr) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut hello = [0; 5];
    stream.read_exact(&mut hello)?;
    // After the length: the version of the protocol, or 255 for an error.
    if hello[4] != 10 {
        bail!("MariaDB answers {}", hello[4]);
    }
    Ok(())
}
