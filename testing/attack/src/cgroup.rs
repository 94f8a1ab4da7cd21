//! A cgroup that limits the memory of the server, of version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A cgroup of its own, removed on drop.
pub struct Cgroup {
    folder: PathBuf,
    files: Files,
}

/// The names of its files in the two versions.
struct Files {
    version: &'static str,
    limit: &'static str,
    peak: &'static str,
    /// Has the number of killed processes in the line `oom_kill`.
    kills: &'static str,
}

const VERSION_2: Files =
    Files { version: "cgroup v2", limit: "memory.max", peak: "memory.peak", kills: "memory.events" };
const VERSION_1: Files = Files {
    version: "cgroup v1",
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    kills: "memory.oom_control",
};

impl Cgroup {
    /// Creates a cgroup with this limit. The error states what the machine lacks.
    pub fn create(bytes: u64) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("jeton-attack-{}", std::process::id());
        let this = if root.join("cgroup.controllers").exists() {
            // Fails if it is enabled already by a parent that this process cannot write to.
            let _enabled = fs::write(root.join("cgroup.subtree_control"), "+memory");
            Self { folder: root.join(name), files: VERSION_2 }
        } else {
            Self { folder: root.join("memory").join(name), files: VERSION_1 }
        };
        fs::create_dir(&this.folder).with_context(|| format!("cannot create {}", this.folder.display()))?;
        let limit = this.folder.join(this.files.limit);
        fs::write(&limit, bytes.to_string()).with_context(|| format!("cannot write {}", limit.display()))?;
        // Swap would hide the use of memory. Not every kernel has it.
        let _no_swap = fs::write(this.folder.join("memory.swap.max"), "0");
        Ok(this)
    }

    pub fn version(&self) -> &'static str {
        self.files.version
    }

    /// The file that moves a process into the cgroup.
    pub fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// The maximum memory of the cgroup in bytes, which includes the page cache.
    pub fn peak(&self) -> Option<u64> {
        fs::read_to_string(self.folder.join(self.files.peak)).ok()?.trim().parse().ok()
    }

    /// How many of its processes the kernel killed for lack of memory.
    pub fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.files.kills)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _still_in_use = fs::remove_dir(&self.folder);
    }
}
