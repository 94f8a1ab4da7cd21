//! The registers in which the coordinators store decisions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jeton_register::embedded::{EmbeddedRegisters, Options};
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret, Settings};
use jeton_wal::disk::RealDisk;

/// Maximum time for three members to elect a leader.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// A log on disk, synced before each response.
pub(crate) fn embedded(folder: &Path) -> Result<EmbeddedRegisters<RealDisk>> {
    std::fs::create_dir_all(folder)?;
    Ok(EmbeddedRegisters::open(RealDisk::new(folder)?, Options::default())?)
}

/// Three members in this process, connected over loopback, the first leader first. With a folder, their logs
/// are in it.
pub(crate) fn three(folder: Option<&Path>) -> Result<Vec<Arc<RaftRegisters>>> {
    let mut addresses = Vec::new();
    for id in 1..=3 {
        addresses.push(Member { id, address: jeton_testbed::free_address()? });
    }
    let mut members = Vec::new();
    for Member { id, .. } in addresses.clone() {
        let durability = match folder {
            Some(folder) => Durability::Disk(folder.join(format!("member-{id}"))),
            None => Durability::Memory,
        };
        let secret = Secret::new("known to all members of the test cluster");
        let settings = Settings::new(id, addresses.clone(), secret, durability);
        members.push(Arc::new(RaftRegisters::open(settings).context("a member does not open")?));
    }
    let started = Instant::now();
    while started.elapsed() < ELECTION_TIMEOUT {
        let leader = members.iter().find_map(|member| member.leader());
        if let Some(leader) = leader.filter(|_| members.iter().all(|member| member.is_voter())) {
            members.rotate_left(leader as usize - 1);
            return Ok(members);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("three members elect no leader within {ELECTION_TIMEOUT:?}")
}
