//! Interpretations of the figures, and limits of faults.

/// The limit of each kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A server crashes.
    pub crashes: u8,
    /// A crashed server restarts. The paper does not define how.
    pub restarts: u8,
    /// A running server is suspected.
    pub suspicions: u8,
    /// A database votes no.
    pub refusals: u8,
    /// The client sends to all servers early.
    pub haste: u8,
    /// A database reports a prepared branch as unknown, because the session of its owner is open.
    pub unknown: u8,
    /// A database crashes and restarts: branches that are not prepared, and messages to it, are lost.
    pub outages: u8,
}

impl Faults {
    pub const NONE: Self =
        Self { crashes: 0, restarts: 0, suspicions: 0, refusals: 0, haste: 0, unknown: 0, outages: 0 };
    pub const CRASH: Self = Self { crashes: 1, ..Self::NONE };
}

/// An interpretation of the figures with its faults.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub faults: Faults,
    /// Figure 6, line 10: the cleaning thread always advances, not only after it has cleaned an attempt.
    pub advances_always: bool,
    /// A database remembers aborts of branches that it has never seen. No XA engine does.
    pub remembers_aborts: bool,
    /// Recovery lists prepared branches periodically and ends them by the recorded decision.
    pub sweeps: bool,
    /// A server restarts under a new name.
    pub new_names: bool,
}

impl Variant {
    /// The figures as printed.
    pub const LITERAL: Self = Self {
        faults: Faults::NONE,
        advances_always: false,
        remembers_aborts: false,
        sweeps: false,
        new_names: false,
    };
    /// The cleaning thread advances.
    pub const LOOP_FIXED: Self = Self { advances_always: true, ..Self::LITERAL };
    /// Databases as the paper assumes them.
    pub const REMEMBERING: Self = Self { remembers_aborts: true, ..Self::LOOP_FIXED };
    /// Databases as they are, with recovery.
    pub const SWEPT: Self = Self { sweeps: true, ..Self::LOOP_FIXED };
    /// Recovery, and a new name for each incarnation of a server.
    pub const NEW_NAMES: Self = Self { new_names: true, ..Self::SWEPT };

    /// The same interpretation with these faults.
    pub const fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }
}
