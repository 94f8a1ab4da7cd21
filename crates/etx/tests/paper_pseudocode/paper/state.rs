//! What there is at a moment.

use std::collections::{BTreeMap, BTreeSet};

use super::variant::Faults;

pub const SERVERS: u8 = 2;
pub const DATABASES: usize = 2;
/// The client is watched up to this try. Longer runs are cut.
pub const TRIES: u8 = 4;

/// A result: which computation of which try made it. The paper has one for each try, for it has no server that computes a try twice.
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

/// A server in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
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
    /// `regA`: who works on a try. With [`Variant::new_names`](super::Variant::new_names) off, all lives of a server are called by the first.
    pub claims: BTreeMap<u8, Life>,
    /// `regD`: what became of a try.
    pub decisions: BTreeMap<u8, Decision>,
    /// How often each try was computed.
    pub runs: BTreeMap<u8, u8>,
    pub letters: BTreeSet<Letter>,
    pub left: Faults,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    pub attempt: u8,
    pub stage: Stage,
}

/// Where the client is in figure 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// At the beginning.
    Begin,
    /// Waiting for the first server, up to a time (line 4).
    First,
    /// Waiting for any server, without end (line 7).
    Any,
    /// At the end.
    Delivered(ExecutionResult),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinator {
    pub is_up: bool,
    pub life: u8,
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
    Walking { of: Life, attempt: u8 },
    /// In `terminate` (line 8).
    Terminating { of: Life, termination: Termination },
    /// In the loop of line 5, with this try for ever.
    Spinning(u8),
}

/// A call of `terminate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Termination {
    pub attempt: u8,
    pub decision: Decision,
    /// Who has ever acknowledged.
    pub acked: Flags,
    /// Who has answered since the decision was last sent, by `AckDecide` or `Ready`.
    pub replied: Flags,
}

/// Figure 3, with the branches of an XA engine: they are known by the number of the try, and forgotten when they have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Database {
    pub branches: BTreeMap<u8, Branch>,
    /// What it voted yes for.
    pub voted: BTreeSet<ExecutionResult>,
    pub committed: BTreeSet<ExecutionResult>,
    /// What it voted no for, or rolled back after a yes.
    pub aborted: BTreeSet<ExecutionResult>,
    /// The tries that it was told to abort; only if it [remembers](super::Variant::remembers_aborts).
    pub remembered: BTreeSet<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Branch {
    pub computed: ExecutionResult,
    pub maker: Life,
    pub is_prepared: bool,
}

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Letter {
    /// `again` if it was sent to all.
    Request {
        to: u8,
        attempt: u8,
        again: bool,
    },
    /// The work is named by its try; the computation tells the checker whose connection it is.
    Prepare {
        from: Life,
        to: usize,
        computed: ExecutionResult,
    },
    Decide {
        from: Life,
        to: usize,
        attempt: u8,
        decision: Decision,
    },
    Result {
        from: Life,
        attempt: u8,
        decision: Decision,
    },
    /// A database has come back.
    Ready {
        from: usize,
        to: u8,
    },
}

impl Letter {
    pub fn sender(&self) -> Option<Life> {
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
    pub fn new(life: u8) -> Self {
        Self {
            is_up: true,
            life,
            decision: None,
            execution: Execution::Idle,
            cleaning: Cleaning::Idle,
            clist: BTreeSet::new(),
        }
    }
}

impl State {
    pub fn new(faults: Faults) -> Self {
        let database = || Database {
            branches: BTreeMap::new(),
            voted: BTreeSet::new(),
            committed: BTreeSet::new(),
            aborted: BTreeSet::new(),
            remembered: BTreeSet::new(),
        };
        Self {
            client: Client { attempt: 1, stage: Stage::Begin },
            servers: (0..SERVERS).map(|_| Coordinator::new(1)).collect(),
            databases: (0..DATABASES).map(|_| database()).collect(),
            claims: BTreeMap::new(),
            decisions: BTreeMap::new(),
            runs: BTreeMap::new(),
            letters: BTreeSet::new(),
            left: faults,
        }
    }

    pub fn server(&self, number: u8) -> &Coordinator {
        &self.servers[usize::from(number)]
    }

    pub fn server_mut(&mut self, number: u8) -> &mut Coordinator {
        &mut self.servers[usize::from(number)]
    }

    /// The life that a server is in, or was in when it crashed.
    pub fn life(&self, server: u8) -> Life {
        Life { server, number: self.server(server).life }
    }

    pub fn is_alive(&self, life: Life) -> bool {
        self.server(life.server).is_up && self.life(life.server) == life
    }

    /// Whether its sender is no more. Then it may come or not.
    pub fn is_orphan(&self, letter: &Letter) -> bool {
        letter.sender().is_some_and(|sender| !self.is_alive(sender))
    }

    pub fn delivered(&self) -> Option<ExecutionResult> {
        match self.client.stage {
            Stage::Delivered(computed) => Some(computed),
            _ => None,
        }
    }

    /// Whether the client has gone further than we look.
    pub fn is_cut(&self) -> bool {
        self.client.attempt > TRIES
    }

    /// Sends a letter, unless it is to a server that is down.
    pub fn send(&mut self, letter: Letter) {
        let is_down = (0..SERVERS).any(|server| letter.is_to_server(server) && !self.server(server).is_up);
        if !is_down {
            self.letters.insert(letter);
        }
    }
}
