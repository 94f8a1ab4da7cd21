//! PostgreSQL from the system's packages.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::certificate::Certificate;
use crate::database::{Database, Flavour};
use crate::server::{User, bound_command, run};

/// The superuser of the database. It has no password.
pub const USER: &str = "tester";

/// The system user of the package, for tests that run as root.
const OWNER: &str = "postgres";

/// Settings that differ from the defaults.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("max_prepared_transactions", "200"),
    ("max_connections", "300"),
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
];

/// The field of an error with its code: `pg_hba.conf` permits no such session.
const REFUSED: &[u8] = b"C28000\0";

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A PostgreSQL with a folder and an address of its own.
pub type Postgres = Database<PostgresFlavour>;

pub struct PostgresFlavour {
    settings: BTreeMap<String, String>,
    /// The server takes encrypted connections only, with this certificate.
    certificate: Option<Certificate>,
}

/// The folder of the programs. Debian installs each version in a folder outside of the path.
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

/// A client program of the package.
pub fn program(name: &str) -> Result<Command> {
    Ok(bound_command(&programs()?.join(name), None, Signal::KILL))
}

/// The output of `postgres --version`.
pub fn version() -> String {
    let run = |folder: PathBuf| Command::new(folder.join("postgres")).arg("--version").output().ok();
    let output = programs().ok().and_then(run).map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().next().unwrap_or("PostgreSQL is not installed").to_owned()
}

/// The default settings, changed by these.
fn with_defaults(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    SETTINGS.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Postgres {
    /// Creates a database in a folder and starts it. `settings` override the defaults of the testbed. Other
    /// users must be able to traverse the folder.
    pub fn start(folder: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::create(folder, PostgresFlavour { settings: with_defaults(settings), certificate: None })
    }

    /// Like `start`, for encrypted connections only.
    pub fn start_encrypted(folder: &Path, certificate: &Certificate) -> Result<Self> {
        let files = [("ssl", "on"), ("ssl_cert_file", "cert.pem"), ("ssl_key_file", "key.pem")];
        let certificate = Some(certificate.clone());
        Self::create(folder, PostgresFlavour { settings: with_defaults(&files), certificate })
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.flavour.settings.insert(name.to_owned(), value.to_owned());
    }
}

impl Flavour for PostgresFlavour {
    const NAME: &'static str = "PostgreSQL";
    const FOLDER: &'static str = "postgres";
    const SHUTDOWN: Signal = Signal::INT;
    const PARENT_DEATH: Signal = Signal::QUIT;

    fn initialize(&self, data: &Path) -> Result<()> {
        let user = User::unless_allowed(OWNER);
        User::make_folder(user, data)?;
        let mut command = bound_command(&programs()?.join("initdb"), user, Signal::KILL);
        command.args(["-U", USER, "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync", "-D"]);
        command.arg(data).current_dir("/");
        run("initdb", command)?;
        let Some(certificate) = &self.certificate else { return Ok(()) };
        certificate.install(user, data)?;
        let rules =
            format!("hostssl all {USER} 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n");
        Ok(std::fs::write(data.join("pg_hba.conf"), rules)?)
    }

    fn command(&self, data: &Path, port: u16) -> Result<Command> {
        let program = programs()?.join("postgres");
        let mut command = bound_command(&program, User::unless_allowed(OWNER), Self::PARENT_DEATH);
        command.arg("-D").arg(data).arg("-p").arg(port.to_string()).current_dir("/");
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        Ok(command)
    }

    /// Opens a session and closes it.
    fn probe(address: SocketAddr) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        let parameters = format!("user\0{USER}\0database\0postgres\0\0");
        let mut startup = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
        startup.extend(196_608_u32.to_be_bytes());
        startup.extend(parameters.as_bytes());
        stream.write_all(&startup)?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        // `R`: authenticated. `E`: an error, such as starting up or shutting down.
        if kind == *b"R" {
            stream.write_all(b"X\0\0\0\x04")?;
            return Ok(());
        }
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        // A server that insists on encryption is ready when it refuses this session for that reason.
        match text.windows(REFUSED.len()).any(|part| part == REFUSED) {
            true => Ok(()),
            false => bail!("PostgreSQL responds with {}", String::from_utf8_lossy(&text)),
        }
    }

    fn url(address: SocketAddr) -> String {
        format!("postgresql://{USER}@{address}/postgres")
    }
}
