//! Who takes part, set up and ready.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::databases::TestDatabases;
use super::etx_client::{EtxClient, Procedure};
use super::protocol::{Contender, Protocol};
use super::registers;
use super::two_phase_commit::TwoPhaseCommit;

/// One who takes part.
pub(crate) struct Participant {
    pub(crate) protocol: Protocol,
    pub(crate) contender: Arc<dyn Contender>,
}

/// How the entrants are set up.
pub(crate) struct SetupOptions<'a> {
    pub(crate) arena: &'a TestDatabases,
    /// For logs and registers.
    pub(crate) folder: &'a Path,
    pub(crate) clients: usize,
    /// The number of the first cluster. Whoever shares a database with another must have another number: a server ends what is prepared there by a life of its cluster that it does not know.
    pub(crate) cluster: u32,
    /// Whether the parts of transactions are told; then there is one client.
    pub(crate) watched: bool,
}

impl SetupOptions<'_> {
    pub(crate) async fn line_up(&self, protocols: &[Protocol]) -> Result<Vec<Participant>> {
        std::fs::create_dir_all(self.folder)?;
        let mut entrants = Vec::new();
        for (place, protocol) in protocols.iter().enumerate() {
            let contender = self.contender(*protocol, self.cluster + place as u32).await?;
            entrants.push(Participant { protocol: *protocol, contender });
        }
        Ok(entrants)
    }

    async fn contender(&self, protocol: Protocol, cluster: u32) -> Result<Arc<dyn Contender>> {
        let Self { arena, folder, clients, watched, .. } = *self;
        let procedure = match protocol {
            Protocol::EtxLastAgent => Procedure::LastAgent,
            Protocol::EtxPostgres => Procedure::Postgres,
            Protocol::EtxMariaDb => Procedure::MariaDb,
            _ => Procedure::Both,
        };
        let place = folder.join(format!("registers-{cluster}"));
        Ok(match protocol {
            Protocol::Baseline
            | Protocol::PresumedNothing
            | Protocol::PresumedAbort
            | Protocol::PostgresPlain
            | Protocol::MariaDbPlain => {
                Arc::new(TwoPhaseCommit::open(protocol, arena, folder, clients).await?)
            }
            Protocol::EtxMemory | Protocol::EtxRaft => {
                let folder = (protocol == Protocol::EtxRaft).then_some(place);
                // They have a runtime of their own, which is not started within another.
                let members =
                    tokio::task::spawn_blocking(move || registers::three(folder.as_deref())).await??;
                Arc::new(EtxClient::open(arena, cluster, procedure, members, clients, watched).await?)
            }
            // Those with their decisions in a database have registers too, and leave them alone.
            _ => {
                let registers = vec![Arc::new(registers::embedded(&place)?)];
                Arc::new(EtxClient::open(arena, cluster, procedure, registers, clients, watched).await?)
            }
        })
    }
}
