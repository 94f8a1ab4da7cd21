//! The protocols under comparison, and the phases of a transaction.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use super::transfer::Transfer;

/// A protocol on a set of databases.
#[async_trait]
pub(crate) trait ProtocolRunner: Send + Sync {
    /// Executes a transfer for one of the clients, from request to response.
    async fn transact(&self, client: usize, task: Transfer) -> Result<PhaseTimes>;
}

/// The time of each phase, as in the paper's Fig. 8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseTimes {
    /// Beginning, and the statements of the work.
    pub(crate) sql: Duration,
    /// The votes.
    pub(crate) prepare: Duration,
    /// Forced writes of a log, a register; with the last agent, the commit that decides.
    pub(crate) decide: Duration,
    /// The commits.
    pub(crate) commit: Duration,
}

/// The protocols, in the order of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A plain commit in each database; a crash in between leaves half of it.
    Baseline,
    PresumedNothing,
    PresumedAbort,
    /// Registers in the memory of a majority of three.
    EtxMemory,
    /// Registers in a log on disk.
    EtxEmbedded,
    /// Registers on the disks of a majority of three.
    EtxRaft,
    /// The decision is a row in PostgreSQL.
    EtxLastAgent,
    /// One transaction in PostgreSQL.
    PostgresPlain,
    /// The same with the decision in it.
    EtxPostgres,
    /// One transaction in MariaDB.
    MariaDbPlain,
    /// The same with the decision in it.
    EtxMariaDb,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "two commits, no protocol",
            Self::PresumedNothing => "2PC presumed nothing",
            Self::PresumedAbort => "2PC presumed abort",
            Self::EtxMemory => "e-Tx, registers in 3 memories",
            Self::EtxEmbedded => "e-Tx, registers on disk",
            Self::EtxRaft => "e-Tx, registers on 3 disks",
            Self::EtxLastAgent => "e-Tx, last agent",
            Self::PostgresPlain => "PostgreSQL, plain",
            Self::EtxPostgres => "PostgreSQL, e-Tx at home",
            Self::MariaDbPlain => "MariaDB, plain",
            Self::EtxMariaDb => "MariaDB, e-Tx at home",
        }
    }

    /// The label without characters that separate cells of a table.
    pub(crate) fn csv_name(self) -> &'static str {
        match self {
            Self::Baseline => "two-commits",
            Self::PresumedNothing => "2pc-presumed-nothing",
            Self::PresumedAbort => "2pc-presumed-abort",
            Self::EtxMemory => "etx-three-memories",
            Self::EtxEmbedded => "etx-disk",
            Self::EtxRaft => "etx-three-disks",
            Self::EtxLastAgent => "etx-last-agent",
            Self::PostgresPlain => "postgresql-plain",
            Self::EtxPostgres => "postgresql-etx",
            Self::MariaDbPlain => "mariadb-plain",
            Self::EtxMariaDb => "mariadb-etx",
        }
    }

    /// The protocol that this one is compared with.
    pub(crate) fn baseline(self) -> Self {
        match self {
            Self::PostgresPlain | Self::EtxPostgres => Self::PostgresPlain,
            Self::MariaDbPlain | Self::EtxMariaDb => Self::MariaDbPlain,
            _ => Self::Baseline,
        }
    }

    pub(crate) fn databases(self) -> u64 {
        if self.baseline() == Self::Baseline { 2 } else { 1 }
    }

    pub(crate) fn is_etx(self) -> bool {
        matches!(
            self,
            Self::EtxMemory
                | Self::EtxEmbedded
                | Self::EtxRaft
                | Self::EtxLastAgent
                | Self::EtxPostgres
                | Self::EtxMariaDb
        )
    }
}
