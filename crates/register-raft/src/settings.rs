//! The settings of a member, and the limits that follow from them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jeton_peer::{Endpoint, Secret};
use jeton_register::Limits;

use crate::open_error::OpenError;

pub const VALUE_BYTES_MAX: usize = 1 << 20;
pub const BATCH_WRITES_MAX: usize = 4096;
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// A blob is one entry of the log.
pub const BLOB_BYTES_MAX: usize = 8 << 20;
/// The most bytes of commands in one entry of the log, except that a larger command has an entry of its own.
pub const PROPOSAL_BYTES_MAX: usize = 2 << 20;
/// The most bytes of writes in flight at one member.
pub const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// The most writes, and the most reads, in flight at one member.
pub const IN_FLIGHT_MAX: usize = 65_536;
/// The most registers that one read returns.
pub const READ_REGISTERS_MAX: usize = 65_536;
const SECRET_BYTES_MIN: usize = 16;
const SECRET_BYTES_MAX: usize = 1024;
/// The highest [`Settings::state_bytes_max`]: a snapshot of the state, and of writes admitted before, is one
/// blob of the wal.
const STATE_BYTES_MAX: usize = 3 << 30;
/// The longest interval and timeout.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The settings of a member.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The number of this member.
    pub me: u64,
    /// All members, three or five, including this one. The numbers must be the same at each member; an
    /// address is the one at which this member reaches the other.
    pub members: Vec<Member>,
    /// The address to listen on, if it is not this member's address in `members`.
    pub listen: Option<SocketAddr>,
    /// The secret that authenticates members.
    pub secret: Secret,
    pub durability: Durability,
    pub timing: Timing,
    /// A snapshot is made, and the log before it purged, after this many entries.
    pub snapshot_entries: u64,
    /// The same after this many bytes of entries. About as much of the log is in memory.
    pub snapshot_bytes: usize,
    /// Above this many bytes of registers and blobs, which are in memory, no writes are admitted until some
    /// are trimmed or retired. Writes admitted before are still executed. At most 3 GiB.
    pub state_bytes_max: usize,
    /// The length of a segment of the log: a multiple of 4096, at least 64 KiB.
    pub segment_bytes: u32,
}

impl Settings {
    /// The defaults for member `me`.
    pub fn new(me: u64, members: Vec<Member>, secret: Secret, durability: Durability) -> Self {
        Self {
            me,
            members,
            listen: None,
            secret,
            durability,
            timing: Timing::default(),
            snapshot_entries: 20_000,
            snapshot_bytes: 64 << 20,
            state_bytes_max: 2 << 30,
            segment_bytes: 16 << 20,
        }
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bad = |why: String| Err(OpenError::Settings(why));
        let ids: BTreeSet<u64> = self.members.iter().map(|member| member.id).collect();
        if ![3, 5].contains(&self.members.len()) || ids.len() != self.members.len() {
            let (members, numbers) = (self.members.len(), ids.len());
            return bad(format!(
                "{members} members with {numbers} numbers: there must be three or five, each with its own number"
            ));
        }
        if !ids.contains(&self.me) {
            return bad(format!("{} is not the number of a member", self.me));
        }
        let addresses: BTreeSet<SocketAddr> = self.members.iter().map(|member| member.address).collect();
        if addresses.len() != self.members.len() {
            return bad("two members have the same address".into());
        }
        let mut others = self.members.iter().filter(|member| member.id != self.me);
        if let Some(member) = others.find(|member| member.address.port() == 0) {
            return bad(format!("the address of member {} has no port", member.id));
        }
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&self.secret.len()) {
            let len = self.secret.len();
            return bad(format!(
                "the secret has {len} bytes: it must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}"
            ));
        }
        if self.state_bytes_max > STATE_BYTES_MAX {
            return bad(format!(
                "state_bytes_max is {}: the limit is {STATE_BYTES_MAX}",
                self.state_bytes_max
            ));
        }
        if self.snapshot_entries == 0 || self.snapshot_bytes == 0 {
            return bad("snapshot_entries and snapshot_bytes must not be 0".into());
        }
        self.timing.check()
    }

    /// This member in connections to others. A change of the messages is a new version.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let (secret, connect_timeout) = (self.secret.clone(), self.timing.connect);
        Endpoint { magic: *b"JRFT", version: 2, secret, me: self.me.into(), connect_timeout, tls: None }
    }

    pub(crate) fn address(&self, member: u64) -> Option<SocketAddr> {
        self.members.iter().find(|other| other.id == member).map(|other| other.address)
    }

    /// The bytes of state above which the leader refuses writes: those that all members may have admitted
    /// while they knew of no more than [`Settings::state_bytes_max`] are still executed.
    pub(crate) fn leader_state_bytes_max(&self) -> usize {
        self.state_bytes_max + self.state_bytes_max.min(self.members.len() * IN_FLIGHT_BYTES_MAX)
    }

    /// The numbers of all members, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.id).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The numbers of all members but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u64> {
        self.members.iter().map(|member| member.id).filter(|&id| id != self.me)
    }
}

pub const LIMITS: Limits = Limits {
    value_bytes_max: VALUE_BYTES_MAX,
    batch_writes_max: BATCH_WRITES_MAX,
    batch_bytes_max: BATCH_BYTES_MAX,
};

/// A member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number, which never changes.
    pub id: u64,
    pub address: SocketAddr,
}

/// Where the Raft log is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durability {
    /// In files of this directory, with an fsync before every acknowledgement. Acknowledged writes survive a
    /// crash of all members.
    Disk(PathBuf),
    /// In memory only: the diskless majority of the paper. Acknowledged writes last as long as a majority of
    /// the processes.
    ///
    /// - A member that restarts has lost everything. The remaining majority admits it as a new voter and
    ///   replicates everything to it. Until then it does not count: restart the next member only then.
    /// - If a majority ends within that time, the remaining members refuse all requests permanently: they
    ///   cannot know what was acknowledged without them. The operator must restart all members, which then
    ///   have no registers.
    /// - *A power failure of all members loses every register*, acknowledged ones too, and they start with an
    ///   empty store. A transaction that was decided may then be decided differently. Use this only if
    ///   members do not fail together, or if everything that depends on the registers is lost with them.
    Memory,
}

/// Intervals and timeouts.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The interval of the leader's heartbeats, and the timeout of an append at another member: it must be
    /// well above the time of an fsync.
    pub heartbeat: Duration,
    /// The election timeout. A member trusts a leader for four thirds of it after it last heard from it; then
    /// it waits for one to four thirds of it and becomes a candidate. So a dead leader is replaced after 7/3
    /// to 8/3 of this time.
    pub election: Duration,
    /// The timeout of a request, which fails with [`Unavailable`](jeton_register::Error::Unavailable) if it
    /// has no effect, and with [`Unknown`](jeton_register::Error::Unknown) if a write may have been executed.
    pub request: Duration,
    /// The timeout of a connection attempt.
    pub connect: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(200),
            election: Duration::from_millis(600),
            request: Duration::from_secs(10),
            connect: Duration::from_secs(1),
        }
    }
}

impl Timing {
    fn check(&self) -> Result<(), OpenError> {
        if self.heartbeat < Duration::from_millis(10) || self.election < 3 * self.heartbeat {
            return Err(OpenError::Settings(format!(
                "heartbeat is {:?} and election is {:?}: at least 10 ms, and at least three heartbeats",
                self.heartbeat, self.election
            )));
        }
        if [self.heartbeat, self.election, self.request, self.connect].iter().any(|&time| time > TIME_MAX) {
            return Err(OpenError::Settings(format!(
                "no interval or timeout may be longer than {TIME_MAX:?}"
            )));
        }
        if self.request < self.election || self.connect.is_zero() {
            return Err(OpenError::Settings(
                "the request timeout must not be below the election timeout, and connect must not be 0"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The longest election timeout; each is drawn between [`Timing::election`] and this.
    pub(crate) fn election_max(&self) -> Duration {
        self.election * 4 / 3
    }

    /// The timeout of one attempt to reach the leader: a leader that has not responded by then may have been
    /// replaced.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        3 * self.election
    }
}
