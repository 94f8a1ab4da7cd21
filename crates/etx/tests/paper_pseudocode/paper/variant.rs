//! How the figures are read, and what may go wrong.

/// How many of each fault there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A server crashes.
    pub crashes: u8,
    /// A server that crashed comes back. The figures do not say how; the paper leaves it out.
    pub restarts: u8,
    /// A server is suspected that has not crashed.
    pub suspicions: u8,
    /// A database votes no.
    pub refusals: u8,
    /// The client asks all servers before it has to.
    pub haste: u8,
    /// A database says that it does not know a prepared branch, because whoever made it is still connected.
    pub unknown: u8,
    /// A database crashes and comes back: what is not prepared is lost, and so is what was on its way to it.
    pub outages: u8,
}

impl Faults {
    /// All goes well.
    pub const NONE: Self =
        Self { crashes: 0, restarts: 0, suspicions: 0, refusals: 0, haste: 0, unknown: 0, outages: 0 };
    /// A server crashes.
    pub const CRASH: Self = Self { crashes: 1, ..Self::NONE };
}

/// A reading of the figures, and a limit to the faults.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub faults: Faults,
    /// Figure 6, line 10: the cleaning thread goes on to the next try in any case, not only when it has cleaned this one.
    pub advances_always: bool,
    /// A database remembers what it was told to abort, also when it had never heard of it. None that speaks XA does.
    pub remembers_aborts: bool,
    /// Prepared branches are looked for, again and again, and ended as it stands in the register of their try.
    pub sweeps: bool,
    /// A server that comes back has another name than before.
    pub new_names: bool,
}

impl Variant {
    /// To the letter.
    pub const LITERAL: Self = Self {
        faults: Faults::NONE,
        advances_always: false,
        remembers_aborts: false,
        sweeps: false,
        new_names: false,
    };
    /// With a cleaning thread that gets on.
    pub const LOOP_FIXED: Self = Self { advances_always: true, ..Self::LITERAL };
    /// With databases as the paper must have thought of them.
    pub const REMEMBERING: Self = Self { remembers_aborts: true, ..Self::LOOP_FIXED };
    /// With databases as they are, and a sweeper.
    pub const SWEPT: Self = Self { sweeps: true, ..Self::LOOP_FIXED };
    /// And with servers that have a new name in each life.
    pub const NEW_NAMES: Self = Self { new_names: true, ..Self::SWEPT };

    /// The same reading with these faults.
    pub const fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }
}
