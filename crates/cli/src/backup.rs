//! `jeton backup` and `jeton restore`: complete copies of a store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_auth::UsageFile;
use jeton_engine::{Engine, OpenError, Options};
use jeton_server::node::{explain_open_error, open_store};
use jeton_wal as wal;
use jeton_wal::disk::{Disk, LockError, RealDisk};
use serde_json::json;

use crate::cli_error::{CliError, fix_of};
use crate::config::{Config, Flags};
use crate::number_format;
use crate::output;
use crate::server_client::{Http, ServerArgs, json_of};

/// Time limit of a backup by a server. A backup to another file system copies all files.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Marker file of an incomplete copy. The engine does not open such a store.
const INCOMPLETE: &str = "INCOMPLETE";

/// Copy the store of a server, running or not, into a new directory
///
/// The copy is a complete store, which jeton serve --data opens. On the same file system, immutable files are
/// hard links: copy the backup to another machine to survive a disk failure. If a server uses the store, it
/// makes the copy over HTTP, below its setting backup_dir, and keeps serving.
#[derive(Args)]
pub struct Backup {
    /// Directory of the copy; new or empty
    target: PathBuf,

    /// Data directory [default: the setting data] [env: JETON_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Configuration file [env: JETON_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Copy a backup into a new directory and check that it opens
#[derive(Args)]
pub struct Restore {
    /// Directory of the backup
    source: PathBuf,

    /// Directory of the restored store; new or empty
    target: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub fn run(&self) -> Result<()> {
        let settings = Config::load(&Flags::of(&[]).with_config(self.config.clone()))?.settings;
        let data = self.data.clone().unwrap_or_else(|| settings.data.clone());
        // Opening would create a store where none is.
        check_store(&data, "there is nothing to copy", "name the directory of the data with --data")?;
        let engine = match Engine::open(&data, settings.engine_options()) {
            Err(OpenError::Log(wal::OpenError::Locked { by, pid })) => {
                let address = settings.http.0.map(|address| address.to_string());
                let server = self.server.clone();
                let server = address.map_or(server.clone(), |address| server.or_at(address));
                let (files, entries) = self.request_backup(&server, &data).map_err(|error| {
                    let what = format!(
                        "the store in {} is in use by {by} (process {pid}), and the server at {} made no backup",
                        data.display(),
                        server.http()
                    );
                    let fix = fix_of(&error).unwrap_or("name its HTTP address with --http, or stop it first").to_owned();
                    CliError::of(error, what, fix)
                })?;
                return self.print(&data, files, entries);
            }
            Err(error) => return Err(explain_open_error(&data, error).into()),
            Ok(engine) => engine,
        };
        let report = engine.checkpoint(&self.target).map_err(|error| {
            let what = format!("the copy in {} is incomplete and cannot be opened", self.target.display());
            CliError::of(
                error,
                what,
                "remove it, check that the directory is new or empty and has enough space, and try again",
            )
        })?;
        engine.close();
        // The usage of tokens is part of the store.
        let usage = UsageFile::new(data.join(UsageFile::NAME));
        let usage = usage.read().and_then(|used| match &used[..] {
            [] => Ok(()),
            used => UsageFile::new(self.target.join(UsageFile::NAME)).write(used),
        });
        usage.map_err(|error| {
            let fix = format!("repair {}, remove the copy, and try again", UsageFile::NAME);
            CliError::of(error, "the usage of tokens was not copied", fix)
        })?;
        self.print(&data, report.files, report.entries)
    }

    /// Requests a backup from the server that uses the store. Returns the numbers of files and log entries.
    fn request_backup(&self, server: &ServerArgs, data: &Path) -> Result<(u64, u64)> {
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|path| anyhow!("{} is not UTF-8", path.display()))
        };
        // The server compares it with its own store: another server may listen at this address.
        let of = text(data.canonicalize()?)?;
        let body = json!({ "to": text(resolved(&self.target)?)?, "of": of }).to_string();
        let (status, text) =
            Http(server).ask_within("POST", "/v1/admin/backup", Some(&body), BACKUP_TIMEOUT)?;
        let done = json_of(status, &text)?;
        let number = |name: &str| {
            done[name].as_u64().ok_or_else(|| anyhow!("{name} is missing in the response of the server"))
        };
        Ok((number("files")?, number("log_entries")?))
    }

    fn print(&self, data: &Path, files: u64, entries: u64) -> Result<()> {
        if self.json {
            return output::json(&json!({ "target": self.target, "files": files, "log_entries": entries }));
        }
        output::line(&format!(
            "{} is a complete copy of {}: {}, {files} files linked or copied, {} log entries.",
            self.target.display(),
            data.display(),
            number_format::bytes(folder_bytes(&self.target)),
            number_format::grouped(entries)
        ))
    }
}

/// An absolute path without `..`, because the server has another working directory.
fn resolved(path: &Path) -> Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let path = std::path::absolute(path)?;
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
        // The parent directories do not exist yet.
        _ => Ok(path),
    }
}

impl Restore {
    pub fn run(&self) -> Result<()> {
        let (source, target) = (&self.source, &self.target);
        check_store(source, "there is no backup", "name a directory created by jeton backup")?;
        let _lock = lock(source)?;
        let failed = |error: io::Error| {
            let what = format!("{} was not restored", target.display());
            CliError::of(error, what, "remove the incomplete copy, check the free space, and try again")
        };
        if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CliError::without_cause(
                format!("{} is not empty", target.display()),
                "name a new directory: this one may contain data",
            ));
        }
        fs::create_dir_all(target).map_err(failed)?;
        let mark = target.join(INCOMPLETE);
        fs::write(&mark, "This file is removed when the copy is complete.\n")
            .and_then(|()| sync(&mark))
            .map_err(failed)?;
        let (files, bytes) = copy(source, target).map_err(failed)?;
        fs::remove_file(&mark).and_then(|()| sync(target)).map_err(failed)?;
        let engine = open_store(target, Options::default())?;
        let tables: Vec<String> = engine.catalog().iter().map(|table| table.name.clone()).collect();
        engine.close();
        if self.json {
            return output::json(
                &json!({ "target": target, "files": files, "bytes": bytes, "tables": tables }),
            );
        }
        output::line(&format!(
            "{} is restored and opens: {files} files, {}, tables {}.",
            target.display(),
            number_format::bytes(bytes),
            tables.join(", ")
        ))?;
        output::line(&format!("Start it: jeton serve --data {}", target.display()))
    }
}

/// Fails unless the directory contains a complete store.
fn check_store(folder: &Path, what: &str, fix: &str) -> Result<()> {
    let path = folder.display();
    if folder.join(INCOMPLETE).exists() {
        return Err(CliError::without_cause(
            format!("{path} is an incomplete copy"),
            "use another copy, or make it again",
        ));
    }
    if !folder.join("log").is_dir() {
        let reason = anyhow!("{path} contains no log, so it is not a store");
        return Err(CliError::of(reason, format!("{what} in {path}"), fix));
    }
    Ok(())
}

/// Locks a store, because files must not change while they are copied.
fn lock(folder: &Path) -> Result<Option<fs::File>> {
    // A read-only backup needs no lock.
    let Ok(disk) = RealDisk::new(folder) else { return Ok(None) };
    match disk.lock("jeton restore") {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { by, pid }) => Err(CliError::without_cause(
            format!("{} is in use by {by} (process {pid})", folder.display()),
            "restore a backup, or stop that process first",
        )),
        Err(_) => Ok(None),
    }
}

/// Copies and syncs all files. Returns their number and bytes.
fn copy(from: &Path, to: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let target = to.join(&name);
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            let inside = copy(&entry.path(), &target)?;
            (files, bytes) = (files + inside.0, bytes + inside.1);
        } else if kind.is_file() && name != "LOCK" {
            bytes += fs::copy(entry.path(), &target)?;
            files += 1;
            sync(&target)?;
        }
    }
    sync(to)?;
    Ok((files, bytes))
}

fn sync(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// Bytes of all readable files below a folder.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
