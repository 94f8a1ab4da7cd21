//! The state of the model.

use std::collections::{BTreeMap, BTreeSet};

use super::variant::Faults;

pub const SERVERS: u8 = 2;
pub const DATABASES: usize = 2;
/// Limit of attempts; longer runs are cut.
pub const ATTEMPTS: u8 = 4;

/// A result, by attempt and computation. In the paper no attempt is computed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionResult {
    pub attempt: u8,
    pub run: u8,
}

/// The value of a register `regD[j]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    Abort,
    Commit(ExecutionResult),
}

/// An incarnation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    pub server: u8,
    pub number: u8,
}

/// One flag for each database.
pub type Flags = [bool; DATABASES];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub client: Client,
    pub servers: Vec<Coordinator>,
    pub databases: Vec<Database>,
    /// `regA`: the owner of an attempt. Without [`Variant::new_names`](super::Variant::new_names), all
    /// incarnations of a server have the name of the first.
    pub claims: BTreeMap<u8, Incarnation>,
    /// `regD`: the decision of an attempt.
    pub decisions: BTreeMap<u8, Decision>,
    /// The number of computations of each attempt.
    pub runs: BTreeMap<u8, u8>,
    pub messages: BTreeSet<Message>,
    pub left: Faults,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    pub attempt: u8,
    pub stage: Stage,
}

/// The position of the client in figure 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Begin,
    /// Waiting for the first server, with a timeout (line 4).
    First,
    /// Waiting for any server, without a timeout (line 7).
    Any,
    Delivered(ExecutionResult),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinator {
    pub is_up: bool,
    pub incarnation: u8,
    /// The variable `decision` of figure 5, as far as it matters: the result that was committed.
    pub decision: Option<ExecutionResult>,
    pub execution: Execution,
    pub cleaning: Cleaning,
    pub clist: BTreeSet<u8>,
}

/// The execution thread: figure 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Execution {
    /// Waiting for a request (line 2).
    Idle,
    /// It has found its own name in `regA[j]` (line 7).
    Claimed(u8),
    /// Waiting for votes (figure 4, `prepare`, line 3).
    Voting { computed: ExecutionResult, replied: Flags, yes: Flags },
    /// In `terminate` (figure 4).
    Terminating(Termination),
}

/// The cleaning thread: figure 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleaning {
    /// Between rounds.
    Idle,
    /// About to read `regA[j]` (line 5).
    Walking { of: Incarnation, attempt: u8 },
    /// In `terminate` (line 8).
    Terminating { of: Incarnation, termination: Termination },
    /// In the loop of line 5, without progress.
    Spinning(u8),
}

/// A call of `terminate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Termination {
    pub attempt: u8,
    pub decision: Decision,
    /// The databases that have acknowledged.
    pub acked: Flags,
    /// The databases that have replied to the last send, by `AckDecide` or `Ready`.
    pub replied: Flags,
}

/// Figure 3, with the branches of an XA engine, which forgets a branch after its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Database {
    pub branches: BTreeMap<u8, Branch>,
    /// Results with a yes vote.
    pub voted: BTreeSet<ExecutionResult>,
    pub committed: BTreeSet<ExecutionResult>,
    /// Results with a no vote, or rolled back after a yes vote.
    pub aborted: BTreeSet<ExecutionResult>,
    /// Aborted attempts, with [`Variant::remembers_aborts`](super::Variant::remembers_aborts).
    pub remembered: BTreeSet<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Branch {
    pub computed: ExecutionResult,
    pub maker: Incarnation,
    pub is_prepared: bool,
}

/// A message in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// `again`: sent to all servers.
    Request {
        to: u8,
        attempt: u8,
        again: bool,
    },
    /// The name of a branch is its attempt; `computed` identifies the connection.
    Prepare {
        from: Incarnation,
        to: usize,
        computed: ExecutionResult,
    },
    Decide {
        from: Incarnation,
        to: usize,
        attempt: u8,
        decision: Decision,
    },
    Result {
        from: Incarnation,
        attempt: u8,
        decision: Decision,
    },
    /// A database has restarted.
    Ready {
        from: usize,
        to: u8,
    },
}

impl Message {
    pub fn sender(&self) -> Option<Incarnation> {
        match self {
            Self::Prepare { from, .. } | Self::Decide { from, .. } | Self::Result { from, .. } => Some(*from),
            Self::Request { .. } | Self::Ready { .. } => None,
        }
    }

    pub fn is_to_database(&self, database: usize) -> bool {
        matches!(self, Self::Prepare { to, .. } | Self::Decide { to, .. } if *to == database)
    }

    pub fn is_to_server(&self, server: u8) -> bool {
        matches!(self, Self::Request { to, .. } | Self::Ready { to, .. } if *to == server)
    }
}

impl Coordinator {
    pub fn new(incarnation: u8) -> Self {
        Self {
            is_up: true,
            incarnation,
            decision: None,
            execution: Execution::Idle,
            cleaning: Cleaning::Idle,
            clist: BTreeSet::new(),
        }
    }
}

impl State {
    pub fn new(faults: Faults) -> Self {
        Self {
            client: Client { attempt: 1, stage: Stage::Begin },
            servers: vec![Coordinator::new(1); SERVERS.into()],
            databases: vec![Database::default(); DATABASES],
            claims: BTreeMap::new(),
            decisions: BTreeMap::new(),
            runs: BTreeMap::new(),
            messages: BTreeSet::new(),
            left: faults,
        }
    }

    pub fn server(&self, number: u8) -> &Coordinator {
        &self.servers[usize::from(number)]
    }

    pub fn server_mut(&mut self, number: u8) -> &mut Coordinator {
        &mut self.servers[usize::from(number)]
    }

    /// The current or last incarnation of a server.
    pub fn incarnation(&self, server: u8) -> Incarnation {
        Incarnation { server, number: self.server(server).incarnation }
    }

    pub fn is_alive(&self, incarnation: Incarnation) -> bool {
        self.server(incarnation.server).is_up && self.incarnation(incarnation.server) == incarnation
    }

    /// Whether its sender has crashed: it may be lost.
    pub fn is_orphan(&self, message: &Message) -> bool {
        message.sender().is_some_and(|sender| !self.is_alive(sender))
    }

    pub fn delivered(&self) -> Option<ExecutionResult> {
        match self.client.stage {
            Stage::Delivered(computed) => Some(computed),
            _ => None,
        }
    }

    /// Whether the run is longer than the model follows.
    pub fn is_cut(&self) -> bool {
        self.client.attempt > ATTEMPTS
    }

    /// Sends a message, unless its recipient is a crashed server.
    pub fn send(&mut self, message: Message) {
        let is_down = (0..SERVERS).any(|server| message.is_to_server(server) && !self.server(server).is_up);
        if !is_down {
            self.messages.insert(message);
        }
    }
}
