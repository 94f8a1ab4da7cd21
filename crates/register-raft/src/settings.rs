//! What can be chosen about a member, and the limits that follow.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jeton_register::Limits;

use crate::open_error::OpenError;

/// The largest value of a register, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most writes of one batch.
pub const BATCH_WRITES_MAX: usize = 4096;
/// The most bytes of all values of one batch.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
/// The largest row, in bytes: it travels as one entry of the log.
pub const ROW_BYTES_MAX: usize = 8 << 20;
/// What was asked meanwhile goes into one entry of the log up to so many bytes; what is larger alone goes alone.
pub const PROPOSAL_BYTES_MAX: usize = 2 << 20;
/// How many bytes of requests to write may wait or be under way at one member.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// How many requests to write, and how many to read, may wait or be under way at one member.
pub const WAITING_MAX: usize = 65_536;
/// The most registers that one read returns.
pub const READ_REGISTERS_MAX: usize = 65_536;
/// The most bytes of values that one read returns, except that it returns one register whatever its size.
pub const READ_BYTES_MAX: usize = 4 << 20;
/// The most connections that others may have to a member.
pub const CONNECTIONS_MAX: usize = 128;
/// The least length of a secret, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;
/// The greatest length of a secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 1024;
/// The most that may be chosen for [`Settings::state_bytes_max`]: a snapshot of it, and of what was admitted before, is one row.
pub const STATE_BYTES_MAX: usize = 3 << 30;
/// The longest time that may be chosen for anything.
pub const TIME_MAX: Duration = Duration::from_secs(3600);

/// What can be chosen about a member of a cluster.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Which of the members this one is.
    pub me: u64,
    /// All of them, three or five, this one included: the same numbers at each. An address is where this member finds that one.
    pub members: Vec<Member>,
    /// Where to listen, if not at the address that is given for this member.
    pub listen: Option<SocketAddr>,
    /// What the members know and nobody else.
    pub secret: Secret,
    /// Where the log is.
    pub durability: Durability,
    /// How long things may take.
    pub timing: Timing,
    /// A snapshot is made, and the log before it forgotten, after so many entries.
    pub snapshot_entries: u64,
    /// And after so many bytes of entries. About as much of the log is held in memory.
    pub snapshot_bytes: usize,
    /// Beyond so many bytes of registers and rows, no writes are admitted until something is trimmed or retired. What was admitted before is
    /// still taken, so it may become [a little more](Settings::state_bytes_end). All of them are in memory. At most 3 GiB.
    pub state_bytes_max: usize,
    /// How long a file of the log is. A multiple of 4096, from 64 KiB.
    pub segment_bytes: u32,
}

impl Settings {
    /// The defaults, for the member `me` of these.
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
            return bad(format!(
                "there are {} members with {} numbers: there must be three or five, each with its own",
                self.members.len(),
                ids.len()
            ));
        }
        if !ids.contains(&self.me) {
            return bad(format!("{} is not the number of a member", self.me));
        }
        let addresses: BTreeSet<SocketAddr> = self.members.iter().map(|member| member.address).collect();
        if addresses.len() != self.members.len() {
            return bad("two members have the same address".into());
        }
        if let Some(member) =
            self.members.iter().find(|there| there.id != self.me && there.address.port() == 0)
        {
            return bad(format!("the address of member {} has no port", member.id));
        }
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&self.secret.0.len()) {
            return bad(format!(
                "the secret has {} bytes: it must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}",
                self.secret.0.len()
            ));
        }
        if self.state_bytes_max > STATE_BYTES_MAX {
            return bad(format!("state_bytes_max is {}: at most {STATE_BYTES_MAX}", self.state_bytes_max));
        }
        if self.snapshot_entries == 0 || self.snapshot_bytes == 0 {
            return bad("a snapshot after nothing would be made without end".into());
        }
        self.timing.check()
    }

    /// Where the member of this number is.
    pub(crate) fn address(&self, member: u64) -> Option<SocketAddr> {
        self.members.iter().find(|there| there.id == member).map(|there| there.address)
    }

    /// The leader refuses writes beyond so many bytes: what may have been admitted at all members when they knew of no more than
    /// [`Settings::state_bytes_max`] is still taken.
    pub fn state_bytes_end(&self) -> usize {
        self.state_bytes_max + self.state_bytes_max.min(self.members.len() * WAITING_BYTES_MAX)
    }

    /// The numbers of all, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.id).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// All but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u64> {
        self.members.iter().map(|member| member.id).filter(|&id| id != self.me)
    }
}

/// How large values and batches may be.
pub const LIMITS: Limits = Limits {
    value_bytes_max: VALUE_BYTES_MAX,
    batch_writes_max: BATCH_WRITES_MAX,
    batch_bytes_max: BATCH_BYTES_MAX,
};

/// A member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number, for ever.
    pub id: u64,
    /// Where it is.
    pub address: SocketAddr,
}

/// What the members know and nobody else. It proves who may speak; it does not hide what is said.
#[derive(Clone)]
pub struct Secret(pub(crate) Vec<u8>);

impl Secret {
    /// A secret of these bytes, at least sixteen.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Where the log of Raft is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durability {
    /// In files of this folder, synced before anything is acknowledged. Whatever ends the processes, even all of them at once, what was
    /// acknowledged is there when a majority is back.
    Disk(PathBuf),
    /// In memory only: the diskless majority of the paper. What was acknowledged is in the memory of a majority, and lasts as long as a
    /// majority of the processes does.
    ///
    /// - A member that ends, for whatever reason, has forgotten everything. It is let in again as a new one, by the majority that is left, and
    ///   gets everything from them. Until that is done it does not count: end the next one only then.
    /// - If a majority ends within that time, the rest cannot go on and says so, for ever: it cannot know what was acknowledged without
    ///   it. All must be ended and started again, with nothing.
    /// - *A power cut that hits all members loses every register*, those that were acknowledged too, and they begin with an empty store.
    ///   A transaction whose outcome was decided may then be decided otherwise. Choose this only where members do not fail together, or where all that
    ///   the registers speak of is lost with them.
    Memory,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How often the leader says that it is there. It is also how long a member may take to store what it is sent, so it must be
    /// well above the time of a sync of its disk.
    pub heartbeat: Duration,
    /// Members trust a leader for four thirds of this time after they last heard from it. From then on each waits for this long, or up to a third longer, and wants to
    /// be leader. So a leader that dies is missed for two and a third to two and two thirds of it.
    pub election: Duration,
    /// A request that has no answer after this fails, wherever it waits: with [`Unavailable`](jeton_register::Error::Unavailable) if
    /// nothing was done, with [`Unknown`](jeton_register::Error::Unknown) if a write may have been.
    pub request: Duration,
    /// How long it may take to connect to a member.
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
                "a heartbeat every {:?} and an election after {:?}: the first must be 10 ms or more, the second three times that",
                self.heartbeat, self.election
            )));
        }
        if [self.heartbeat, self.election, self.request, self.connect].iter().any(|&time| time > TIME_MAX) {
            return Err(OpenError::Settings(format!("no time may be longer than {TIME_MAX:?}")));
        }
        if self.request < self.election || self.connect.is_zero() {
            return Err(OpenError::Settings(
                "a request must be given the time of an election, and a connection some time".into(),
            ));
        }
        Ok(())
    }

    /// The longest that a member waits before it wants to be leader.
    pub(crate) fn election_max(&self) -> Duration {
        self.election * 4 / 3
    }

    /// How long one try of a request may take: a leader that has not answered by then may be none any more.
    pub(crate) fn try_max(&self) -> Duration {
        3 * self.election
    }
}
