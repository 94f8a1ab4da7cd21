//! MariaDB from the system's packages.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::certificate::Certificate;
use crate::database::{Database, Flavour};
use crate::server::{User, bound_command, run};

/// The system user of the package, for tests that run as root.
const OWNER: &str = "mysql";

/// Settings that differ from the defaults. The configuration files of the package are not read.
const SETTINGS: &[&str] = &[
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    "--max-connections=300",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
];

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server program. Debian installs it outside of the path of ordinary users.
fn program() -> &'static Path {
    let usual = Path::new("/usr/sbin/mariadbd");
    if usual.is_file() { usual } else { Path::new("mariadbd") }
}

/// A MariaDB with a folder and an address of its own.
pub type MariaDb = Database<MariaDbFlavour>;

pub struct MariaDbFlavour {
    settings: Vec<String>,
    /// The server takes encrypted connections only, with this certificate.
    certificate: Option<Certificate>,
}

impl MariaDb {
    /// Creates a database called `jeton` in a folder and starts it, with or without a binary log. `settings`
    /// (`--name=value`) override the defaults of the testbed. Other users must be able to traverse the
    /// folder.
    pub fn start(folder: &Path, binlog: bool, settings: &[&str]) -> Result<Self> {
        let mut settings: Vec<String> =
            SETTINGS.iter().chain(settings).map(|one| (*one).to_owned()).collect();
        if binlog {
            settings.extend(["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"].map(Into::into));
        }
        Self::create(folder, MariaDbFlavour { settings, certificate: None })
    }

    /// Like `start` without a binary log, for encrypted connections only.
    pub fn start_encrypted(folder: &Path, certificate: &Certificate) -> Result<Self> {
        let more = ["--require-secure-transport=ON", "--ssl-cert=cert.pem", "--ssl-key=key.pem"];
        let settings = SETTINGS.iter().chain(&more).map(|one| (*one).to_owned()).collect();
        Self::create(folder, MariaDbFlavour { settings, certificate: Some(certificate.clone()) })
    }

    /// Adds a setting (`--name=value`) for the next start.
    pub fn set(&mut self, setting: &str) {
        self.flavour.settings.push(setting.to_owned());
    }
}

/// The folder for temporary files: when MariaDB starts, it removes those of all servers that share one.
fn temporary(data: &Path) -> PathBuf {
    data.with_extension("tmp")
}

impl Flavour for MariaDbFlavour {
    const NAME: &'static str = "MariaDB";
    const FOLDER: &'static str = "mariadb";
    const SHUTDOWN: Signal = Signal::TERM;
    const PARENT_DEATH: Signal = Signal::KILL;

    fn initialize(&self, data: &Path) -> Result<()> {
        let user = User::unless_allowed(OWNER);
        User::make_folder(user, data)?;
        User::make_folder(user, &temporary(data))?;
        let mut command = bound_command("mariadb-install-db".as_ref(), user, Signal::KILL);
        command.env("TMPDIR", temporary(data));
        command.args(["--no-defaults", "--basedir=/usr", "--skip-test-db", "--innodb-log-file-size=16M"]);
        command.args(["--auth-root-authentication-method=normal", "--skip-name-resolve"]);
        command.arg(format!("--datadir={}", data.display())).current_dir("/");
        run("mariadb-install-db", command)?;
        if let Some(certificate) = &self.certificate {
            certificate.install(user, data)?;
        }
        // A folder in the data folder is a database.
        User::make_folder(user, &data.join("jeton"))
    }

    fn command(&self, data: &Path, port: u16) -> Result<Command> {
        let mut command = bound_command(program(), User::unless_allowed(OWNER), Self::PARENT_DEATH);
        command
            .env("TMPDIR", temporary(data))
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()));
        command.arg(format!("--port={port}")).args(&self.settings);
        command.arg(format!("--socket={}", data.join("socket").display()));
        command.arg(format!("--pid-file={}", data.join("pid").display())).current_dir("/");
        Ok(command)
    }

    /// Waits for the greeting, which the server sends when it is ready.
    fn probe(address: SocketAddr) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting)?;
        // The byte after the header is the protocol version, or 255 for an error.
        if greeting[4] != 10 {
            bail!("MariaDB responds with {}", greeting[4]);
        }
        Ok(())
    }

    fn url(address: SocketAddr) -> String {
        format!("mysql://root@{address}/jeton")
    }
}
