//! PostgreSQL of a development cluster: created in a folder, reachable by a socket in that folder only.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::bound_command;
use crate::cli_error::CliError;

/// The system user of the packages, for a start by root: PostgreSQL refuses to run as root.
const OWNER: &str = "postgres";

/// The superuser of the database. It has no password; the socket is in a private folder.
const USER: &str = "jeton";

const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running PostgreSQL.
pub struct Postgres {
    pub server: Child,
    folder: PathBuf,
}

const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_isready"];

/// The folder of the programs. Debian installs each version in a folder outside of the path.
fn programs() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // In the path there may be links to some of them.
    let in_path = std::env::split_paths(&path).filter_map(|folder| {
        let initdb = folder.join(PROGRAMS[0]).canonicalize().ok()?;
        Some(initdb.parent()?.to_owned())
    });
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_unstable();
    let is_complete = |folder: &PathBuf| PROGRAMS.iter().all(|program| folder.join(program).is_file());
    let mut folders = in_path.chain(versions.into_iter().rev().map(|(_, path)| path));
    folders.find(is_complete).ok_or_else(|| {
        let cause = anyhow!("initdb, postgres and pg_isready are not in PATH or in /usr/lib/postgresql/*/bin");
        let fix = "install it (Debian: apt install postgresql; macOS: brew install postgresql), or add the folder \
                   of initdb to PATH";
        CliError::of(cause, "PostgreSQL is not installed", fix)
    })
}

/// The ids of the user and the group of the packages, if this process runs as root.
fn owner() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let id = |which: &str| -> Result<u32> {
        let output = Command::new("id").args([which, OWNER]).output()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| {
            let cause = anyhow!("PostgreSQL does not run as root, and there is no user {OWNER:?}");
            CliError::of(cause, "PostgreSQL cannot be started", "run jeton dev-cluster as another user")
        })
    };
    Ok(Some((id("-u")?, id("-g")?)))
}

impl Postgres {
    /// Creates a database in a folder, and starts it.
    pub fn start(folder: &Path) -> Result<Self> {
        let (programs, owner) = (programs()?, owner()?);
        std::fs::create_dir(folder)?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(folder, Some(user), Some(group))?;
        }
        let command = |program: &str| {
            let mut command = bound_command(&programs.join(program));
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command.current_dir("/").stdin(Stdio::null());
            command
        };
        let data = folder.join("data");
        let created = command("initdb")
            .args(["-U", USER, "-A", "trust", "--no-locale", "-E", "UTF8", "-D"])
            .arg(&data)
            .output()
            .context("initdb cannot be started")?;
        if !created.status.success() {
            let cause = anyhow!("{}", String::from_utf8_lossy(&created.stderr).trim().to_owned());
            return Err(CliError::of(cause, "initdb failed", "correct the cause, then run it again"));
        }
        let log = std::fs::File::create(folder.join("log"))?;
        let mut socket = std::ffi::OsString::from("unix_socket_directories=");
        socket.push(folder);
        let server = command("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c"])
            .arg(socket)
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("postgres cannot be started")?;
        let mut postgres = Self { server, folder: folder.to_owned() };
        postgres.await_ready(|| {
            let mut probe = Command::new(programs.join("pg_isready"));
            probe.arg("-h").arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
            Ok(probe.status().context("pg_isready cannot be started")?.success())
        })?;
        Ok(postgres)
    }

    fn await_ready(&mut self, mut is_ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !is_ready()? {
            if self.server.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let cause = anyhow!("{}", log.trim().to_owned());
                return Err(CliError::of(
                    cause,
                    "PostgreSQL did not start",
                    "correct the cause, then run it again",
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The URL, for programs of this machine.
    pub fn url(&self) -> String {
        let folder = crate::server_client::escaped(&self.folder.display().to_string());
        format!("postgresql://{USER}@{folder}/postgres")
    }
}
