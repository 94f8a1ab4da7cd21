//! Jeton, Redis and PostgreSQL under the same load, in interleaved rounds.
//!
//! `cargo xtask bench rivals [recipes|durable|relaxed|memory|idle] [--quick]`; without a name, all of them.
//! The part `baseline`, only by name, compares this version with another one (`JETON_RIVALS_BASELINE`).
//! `JETON_RIVALS_COMMAND` replaces the command of the Jeton server (see `jeton.rs`). `JETON_RIVALS_FOLDER`
//! replaces the directory of all data; the user of PostgreSQL must have access to it.

mod echo;
mod idle_connections;
mod jeton;
mod load;
mod memory;
mod operation;
mod postgres;
mod postgres_variants;
mod postgres_wire;
mod protocol;
mod redis;
mod report;
mod resp;
mod server;
mod target;
mod throughput;
mod workload;
mod zipf;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use target::RoundPlan;

const PARTS: &[&str] = &["recipes", "durable", "relaxed", "memory", "idle", "baseline"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["echo", address, request_len] = words[..] {
        return echo::serve(address, request_len);
    }
    let (options, parts): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = options
        .iter()
        .find(|option| **option != "--quick")
        .or(parts.iter().find(|part| !PARTS.contains(part)))
    {
        bail!("unknown argument `{unknown}`; the arguments are: {} [--quick]", PARTS.join(", "));
    }
    let quick = options.contains(&"--quick");
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let plan = if quick {
        RoundPlan { rounds: 2, duration: Duration::from_secs(1) }
    } else {
        RoundPlan { rounds: 5, duration: Duration::from_secs(3) }
    };
    allow_many_connections()?;
    let folder = Folder::new()?;
    print_versions();
    if wanted("recipes") {
        postgres_variants::run(&folder.part("recipes")?, plan);
    }
    if wanted("durable") {
        throughput::durable(&folder.part("durable")?, plan);
    }
    if wanted("relaxed") {
        throughput::relaxed(&folder.part("relaxed")?, plan);
    }
    let ids = if quick { 200_000 } else { 10_000_000 };
    if wanted("memory") {
        memory::run(&folder.part("memory")?, ids);
    }
    if parts.contains(&"baseline") {
        throughput::baseline(&folder.part("baseline")?, plan, ids)?;
    }
    if wanted("idle") {
        idle_connections::run(&folder.part("idle")?, plan);
    }
    Ok(())
}

/// Prints versions and settings.
fn print_versions() {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    println!("# Jeton, Redis and PostgreSQL under the same load\n");
    println!("{processors} processors, shared by the load generator (one thread) and the server.\n");
    println!("- Jeton: {}", jeton::version());
    println!("- Redis: {}; {}", redis::version(), redis::SETTINGS);
    println!("- PostgreSQL: {}; {}", postgres::version(), postgres::settings());
}

/// Raises the limit of open files, also for the servers: the part `idle` opens 2,200 connections.
fn allow_many_connections() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("cannot open more files")
}

/// The directory of all data, on the disk of the build and not in memory. It is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let parent = match std::env::var_os("JETON_RIVALS_FOLDER") {
            Some(folder) => PathBuf::from(folder),
            None => {
                let binary = std::env::current_exe()?;
                let target = binary.parent().and_then(Path::parent).context("no folder above the binary")?;
                target.join("rivals")
            }
        };
        std::fs::create_dir_all(&parent)?;
        let parent = parent.canonicalize()?;
        remove_leftovers(&parent);
        let folder = parent.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// A directory for one part.
    fn part(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} was not removed: {error}", self.0.display());
        }
    }
}

/// Removes the directories of killed runs. The name is the id of the process.
fn remove_leftovers(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_number = name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if is_number && !Path::new("/proc").join(&name).exists() {
            let _still_there_next_time = std::fs::remove_dir_all(entry.path());
        }
    }
}
