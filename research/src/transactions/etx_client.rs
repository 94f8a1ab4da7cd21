//! The client of e-Transactions: a complete coordinator, called through its public API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    Branches, ClientOutcome, Coordinator, DecisionLocation, NoPeers, Options, ProcedureCall, ProcedureLogic,
    ProcedureResult, RequestId, Resource, ResourceError,
};
use jeton_participants::{MariaDb, Postgres, Settings};
use jeton_register::Registers;

use super::databases::TestDatabases;
use super::protocol::{PhaseTimes, ProtocolRunner};
use super::timed_resource::{SharedStamps, TimedResource, take};
use super::transfer::{CREDIT, DEBIT, Transfer};

const POSTGRES: u8 = 0;
const MARIADB: u8 = 1;

/// The procedure, by its databases and by where its decision is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Procedure {
    /// Both databases, decision in registers.
    Both,
    /// Both databases, decision in PostgreSQL.
    LastAgent,
    Postgres,
    MariaDb,
}

impl Procedure {
    const ALL: [Self; 4] = [Self::Both, Self::LastAgent, Self::Postgres, Self::MariaDb];

    fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::LastAgent => "last-agent",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|procedure| procedure.name() == name)
    }

    fn home(self) -> DecisionLocation {
        match self {
            Self::Both => DecisionLocation::Registers,
            Self::LastAgent | Self::Postgres => DecisionLocation::Resource(POSTGRES),
            Self::MariaDb => DecisionLocation::Resource(MARIADB),
        }
    }

    fn databases(self) -> &'static [u8] {
        match self {
            Self::Both | Self::LastAgent => &[POSTGRES, MARIADB],
            Self::Postgres => &[POSTGRES],
            Self::MariaDb => &[MARIADB],
        }
    }
}

struct Transfers;

#[async_trait]
impl ProcedureLogic for Transfers {
    fn decision_location(&self, procedure: &str) -> Option<DecisionLocation> {
        Procedure::named(procedure).map(Procedure::home)
    }

    async fn execute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError> {
        let wrong = |why: &str| ProcedureResult::Failed(Bytes::copy_from_slice(why.as_bytes()));
        let (Some(procedure), Ok(task)) =
            (Procedure::named(&request.procedure), Transfer::decode(&request.parameters))
        else {
            return Ok(wrong("an invalid request"));
        };
        branches.begin(procedure.databases()).await?;
        let mut working = Vec::new();
        for (number, branch) in branches.get_many(procedure.databases()) {
            working.push(async move {
                let (sql, parameters, sleep) = match number {
                    POSTGRES => (DEBIT, task.debit_parameters(), task.postgres_sleep()),
                    _ => (CREDIT, task.credit_parameters(), task.mariadb_sleep()),
                };
                branch.execute(sql, &parameters).await?;
                if let Some(sleep) = sleep {
                    branch.execute(&sleep, &[]).await?;
                }
                Ok::<(), ResourceError>(())
            });
        }
        let mut working = working.into_iter();
        match (working.next(), working.next()) {
            (Some(one), Some(other)) => drop(tokio::try_join!(one, other)?),
            (Some(one), None) => one.await?,
            _ => return Ok(wrong("a procedure without a database")),
        }
        Ok(ProcedureResult::Done(Bytes::from_static(b"done")))
    }
}

/// A coordinator that executes one procedure.
pub(crate) struct EtxClient<R> {
    server: Arc<Coordinator<R>>,
    /// Members of the registers that other servers would have.
    _others: Vec<Arc<R>>,
    procedure: Procedure,
    stamps: Option<SharedStamps>,
    session: u128,
    /// One session per client.
    sequences: Vec<AtomicU32>,
}

impl<R: Registers> EtxClient<R> {
    /// Clients with different `cluster`s use the same databases independently of each other. With `timed`,
    /// only one request may run at a time. The first of the registers belongs to this server.
    pub(crate) async fn open(
        pair: &TestDatabases,
        cluster: u32,
        procedure: Procedure,
        mut registers: Vec<Arc<R>>,
        clients: usize,
        timed: bool,
    ) -> Result<Self> {
        let settings = |name: &str, number| {
            let branches_max = clients.max(1);
            Settings { branches_max, ..Settings::new(name, cluster, number) }
        };
        let postgres = Postgres::new(&pair.postgres, settings("postgres", POSTGRES))?;
        postgres.ensure_schema().await?;
        let mariadb = MariaDb::new(&pair.mariadb, settings("mariadb", MARIADB))?;
        mariadb.ensure_schema().await?;
        let stamps = timed.then(SharedStamps::default);
        let resources: [Arc<dyn Resource>; 2] = [Arc::new(postgres), Arc::new(mariadb)];
        let resources: Arc<[Arc<dyn Resource>]> = match &stamps {
            Some(stamps) => Arc::from(resources.map(|resource| {
                Arc::new(TimedResource { resource, stamps: Arc::clone(stamps) }) as Arc<dyn Resource>
            })),
            None => Arc::from(resources),
        };
        let options = Options::new(cluster, 1, getrandom::u64().context("no random number")?);
        let others = registers.split_off(1);
        let own = registers.pop().context("a server without registers")?;
        let server = Coordinator::new(options, own, resources, Arc::new(Transfers), Arc::new(NoPeers));
        tokio::spawn(Arc::clone(&server).run_recovery());
        let milliseconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
        let random = u128::from(getrandom::u64().context("no random number")?);
        // Dated, as a UUIDv7 is; the last bits count the clients.
        let session = (milliseconds << 80) | (0x7000_8000 << 48) | (random << 16 & 0xffff_ffff_ffff_0000);
        let sequences = (0..clients).map(|_| AtomicU32::new(1)).collect();
        Ok(Self { server, _others: others, procedure, stamps, session, sequences })
    }
}

#[async_trait]
impl<R: Registers> ProtocolRunner for EtxClient<R> {
    async fn transact(&self, client: usize, task: Transfer) -> Result<PhaseTimes> {
        let sequence = self.sequences.get(client).context("a client without a session")?;
        let id = RequestId {
            session: self.session + client as u128,
            sequence: sequence.fetch_add(1, Ordering::Relaxed),
        };
        let request =
            ProcedureCall { procedure: self.procedure.name().to_owned(), parameters: task.encode() };
        self.stamps.as_ref().map(take);
        let started = Instant::now();
        let ending = self.server.issue(id, request, true).await?;
        let ended = Instant::now();
        if !matches!(ending, ClientOutcome::Answer(ProcedureResult::Done(_))) {
            bail!("a transfer ended with {ending:?}");
        }
        Ok(self.stamps.as_ref().map(|stamps| take(stamps).parts(started, ended)).unwrap_or_default())
    }
}
