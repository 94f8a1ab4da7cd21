//! Redis from the packages of the system: a Lua recipe that counts an id once until it expires, and plain
//! `INCRBY`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use jeton_testbed::{Server, Signal, bound_command, free_address};

use crate::resp::{Client, ID, NUMBER, RAW_ID, Resp};
use crate::target::Target;
use crate::workload::COUNTERS;

/// An id is remembered for a day. A duplicate returns the current value.
const RECIPE: &str = "if redis.call('SET', KEYS[1], '', 'NX', 'EX', 86400) then \
                      return redis.call('INCRBY', KEYS[2], ARGV[1]) end \
                      return tonumber(redis.call('GET', KEYS[2]))";

/// When the append-only file is synced.
#[derive(Clone, Copy)]
pub enum Fsync {
    Always,
    EverySecond,
}

impl Fsync {
    fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
        }
    }
}

/// Settings that differ from the defaults.
pub const SETTINGS: &str = "appendonly yes, save '', auto-aof-rewrite-percentage 0 (its file is never rewritten during a measurement)";

/// A running Redis.
pub struct Redis {
    pub server: Server,
    address: SocketAddr,
    fsync: Fsync,
}

/// The version of the server.
pub fn version() -> String {
    crate::server::version("redis-server".as_ref())
}

impl Redis {
    pub fn start(folder: &Path, fsync: Fsync) -> Result<Self> {
        let folder = folder.join(format!("redis-{}", fsync.word()));
        std::fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let mut command = bound_command("redis-server".as_ref(), None, Signal::TERM);
        command.arg("--port").arg(address.port().to_string()).arg("--dir").arg(&folder).args([
            "--bind",
            "127.0.0.1",
            "--protected-mode",
            "yes",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--auto-aof-rewrite-percentage",
            "0",
            "--appendfsync",
            fsync.word(),
        ]);
        let mut server = Server::start("Redis", command, Signal::TERM, folder.join("log"))?;
        server.await_ready(|| Client::connect(address)?.ask(&["PING"]).map(drop))?;
        Ok(Self { server, address, fsync })
    }

    fn target(&self, name: &str, prefix: &'static str, words: &[&str]) -> Target {
        let address = self.address;
        let name = format!("Redis, {name}, appendfsync {}", self.fsync.word());
        Target::new(&name, address, Arc::new(Resp::new(words)), self.server.process())
            .with_sum(move || Client::connect(address)?.sum(COUNTERS, &["GET", &format!("{prefix}{NUMBER}")]))
    }

    /// The Lua recipe, with ids as text.
    pub fn recipe(&self) -> Result<Target> {
        self.recipe_with(ID, "Lua recipe", "exact/")
    }

    /// The Lua recipe, with ids of 16 bytes.
    pub fn recipe_with_raw_ids(&self) -> Result<Target> {
        self.recipe_with(RAW_ID, "Lua recipe with ids of 16 bytes", "bytes/")
    }

    fn recipe_with(&self, id: &str, name: &str, prefix: &'static str) -> Result<Target> {
        let reply = Client::connect(self.address)?.ask(&["SCRIPT", "LOAD", RECIPE])?;
        let sha = reply.lines().last().context("no name of the script")?.to_owned();
        let key = format!("{prefix}{NUMBER}");
        Ok(self.target(name, prefix, &["EVALSHA", &sha, "2", id, &key, "1"]))
    }

    /// `INCRBY`, which counts a retry twice.
    pub fn plain(&self) -> Target {
        let prefix = "plain/";
        self.target("plain INCRBY", prefix, &["INCRBY", &format!("{prefix}{NUMBER}"), "1"])
    }

    /// The memory in use as reported by the server, in bytes.
    pub fn used_memory(&self) -> Result<u64> {
        let text = Client::connect(self.address)?.ask(&["INFO", "memory"])?;
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(used.context("no used_memory")?.trim().parse()?)
    }
}
