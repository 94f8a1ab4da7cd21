//! `jeton backup` and `jeton restore`: copies of a store, complete or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use jeton_auth::UsageFile;
use jeton_engine::{Engine, OpenError, Options};
use jeton_register::disk::{Disk, LockError, RealDisk};
use jeton_register::embedded;
use serde_json::json;

use crate::cli_error::CliError;
use crate::config::{Config, Flags};
use crate::number_format;
use crate::output;
use crate::serve;
use crate::server_client::{Http, ServerArgs, problem_of};

/// How long a server may take to make a copy: to another file system it copies everything.
const COPYING_MAX: Duration = Duration::from_secs(24 * 3600);

/// A copy that is not complete has a file of this name; the engine does not open it.
const INCOMPLETE: &str = "INCOMPLETE";

/// Copy the store of a server, running or not, into a new directory
///
/// The copy is a store of its own: complete when this returns, and opened by jeton serve --data like any other. Files that never change are
/// shared with the store if the copy is on the same file system: copy it to another machine for a backup that survives this one. If a server
/// uses the store, it is asked for the copy over HTTP, and goes on serving.
#[derive(Args)]
pub struct Backup {
    /// The directory of the copy; new or empty
    target: PathBuf,

    /// The directory of the data [default: the setting data] [env: JETON_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The configuration file [env: JETON_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Copy a backup into a new directory, and see that it can be opened
#[derive(Args)]
pub struct Restore {
    /// The backup
    source: PathBuf,

    /// The directory of the restored store; new or empty
    target: PathBuf,

    /// Tell it as JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub fn run(&self) -> Result<()> {
        let settings = Config::load(&Flags::of(&[]).with_config(self.config.clone()))?.settings;
        let data = self.data.clone().unwrap_or_else(|| settings.data.clone());
        // Opening makes a store where none is; a copy of nothing is not what anybody wants.
        check_store(&data, "there is nothing to copy", "name the directory of the data with --data")?;
        let engine = match Engine::open(&data, settings.engine_options()) {
            Err(OpenError::Log(embedded::OpenError::Locked { by, pid })) => {
                let address = settings.http.0.map(|address| address.to_string());
                let server = self.server.clone();
                let server = address.map_or(server.clone(), |address| server.or_at(address));
                let (files, entries) = self.ask(&server, &data).map_err(|why| {
                    let what = format!(
                        "the store in {} is in use by {by} (process {pid}), and no copy was made by asking it at {}",
                        data.display(),
                        server.http()
                    );
                    let fix = match why.downcast_ref::<CliError>() {
                        Some(failure) => failure.fix.clone(),
                        None => "say where it speaks HTTP with --http, or stop it for the time of the copy".into(),
                    };
                    CliError::of(why, what, fix)
                })?;
                return self.tell(&data, files, entries);
            }
            Err(error) => return Err(serve::explain(&data, error)),
            Ok(engine) => engine,
        };
        let report = engine.checkpoint(&self.target).map_err(|why| {
            let what = format!("the copy in {} is not complete, and cannot be opened", self.target.display());
            CliError::of(
                why,
                what,
                "remove it, see that there is room and that the directory is new or empty, and try again",
            )
        })?;
        engine.close();
        // What tokens have created belongs to the store, and to its copy.
        let used = UsageFile::new(data.join(UsageFile::NAME));
        let used = used.read().and_then(|used| match &used[..] {
            [] => Ok(()),
            used => UsageFile::new(self.target.join(UsageFile::NAME)).write(used),
        });
        used.map_err(|why| {
            let fix = format!("mend {}, remove the copy, and try again", UsageFile::NAME);
            CliError::of(why, "what tokens have created is not in the copy", fix)
        })?;
        self.tell(&data, report.files, report.entries)
    }

    /// Asks the server that uses the store for a copy; tells how many files and entries it has.
    fn ask(&self, server: &ServerArgs, data: &Path) -> Result<(u64, u64)> {
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|path| anyhow!("{} is not UTF-8", path.display()))
        };
        // A server of another store would make a copy of that one.
        let of = text(data.canonicalize()?)?;
        let body = json!({ "to": text(resolved(&self.target)?)?, "of": of }).to_string();
        let (status, text) = Http(server).ask_within("POST", "/v1/admin/backup", Some(&body), COPYING_MAX)?;
        if status != 200 {
            return Err(problem_of(status, &text));
        }
        let done: serde_json::Value = serde_json::from_str(&text)?;
        let number = |name: &str| done[name].as_u64().ok_or_else(|| anyhow!("the server did not say {name}"));
        Ok((number("files")?, number("log_entries")?))
    }

    fn tell(&self, data: &Path, files: u64, entries: u64) -> Result<()> {
        if self.json {
            return output::json(&json!({ "target": self.target, "files": files, "log_entries": entries }));
        }
        output::line(&format!(
            "{} is a complete copy of {}: {}, {files} files shared or copied, {} entries of the log.",
            self.target.display(),
            data.display(),
            number_format::bytes(folder_bytes(&self.target)),
            number_format::grouped(entries)
        ))
    }
}

/// A path as the server can use it, which is somewhere else: absolute, and without `..`.
fn resolved(path: &Path) -> Result<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Ok(there);
    }
    let path = std::path::absolute(path)?;
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => Ok(parent.join(name)),
        // The directories above are to be made as well.
        _ => Ok(path),
    }
}

impl Restore {
    pub fn run(&self) -> Result<()> {
        let (source, target) = (&self.source, &self.target);
        check_store(source, "this is no backup", "name the directory that jeton backup made")?;
        let _unused = unused(source)?;
        let failed = |why: io::Error| {
            let what = format!("{} is not restored", target.display());
            CliError::of(why, what, "remove what is there of it, see that there is room, and try again")
        };
        if fs::read_dir(target).is_ok_and(|mut inside| inside.next().is_some()) {
            return Err(CliError {
                what: format!("{} is not empty", target.display()),
                fix: "name a new directory: what is there might be somebody's data".into(),
            }
            .into());
        }
        fs::create_dir_all(target).map_err(failed)?;
        let mark = target.join(INCOMPLETE);
        fs::write(&mark, "a store is copied here; until it is complete, this file is here\n")
            .and_then(|()| sync(&mark))
            .map_err(failed)?;
        let (files, bytes) = copy(source, target).map_err(failed)?;
        fs::remove_file(&mark).and_then(|()| sync(target)).map_err(failed)?;
        // Only what can be opened is a backup.
        let engine = serve::open(target, Options::default())?;
        let tables: Vec<String> = engine.catalog().iter().map(|table| table.name.clone()).collect();
        engine.close();
        if self.json {
            return output::json(
                &json!({ "target": target, "files": files, "bytes": bytes, "tables": tables }),
            );
        }
        output::line(&format!(
            "{} is restored and was opened: {files} files, {}, tables {}.",
            target.display(),
            number_format::bytes(bytes),
            tables.join(", ")
        ))?;
        output::line(&format!("Serve it: jeton serve --data {}", target.display()))
    }
}

/// Whether there is a store that was completed.
fn check_store(folder: &Path, what: &str, fix: &str) -> Result<()> {
    let place = folder.display();
    if folder.join(INCOMPLETE).exists() {
        return Err(CliError {
            what: format!("{place} is a copy that was never completed"),
            fix: "use another one, or make it again".into(),
        }
        .into());
    }
    if !folder.join("log").is_dir() {
        let why = anyhow!("{place} has no log in it, so it is no store");
        return Err(CliError::of(why, format!("{what} in {place}"), fix));
    }
    Ok(())
}

/// Holds a store that nobody uses: files that change while they are copied are no copy.
fn unused(folder: &Path) -> Result<Option<fs::File>> {
    let disk = RealDisk::new(folder).map_err(|why| anyhow!("{why}"))?;
    match disk.lock("jeton restore") {
        Ok(held) => Ok(Some(held)),
        Err(LockError::Held { by, pid }) => Err(CliError {
            what: format!("{} is in use by {by} (process {pid})", folder.display()),
            fix: "restore a backup, or stop that process first".into(),
        }
        .into()),
        // A backup that cannot be written to is not written to by anybody.
        Err(_) => Ok(None),
    }
}

/// Copies all files, and brings them to disk; tells how many, and their bytes.
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

/// The bytes of all files below a folder, as far as they can be seen.
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
