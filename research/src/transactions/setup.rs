//! Sets up the protocols of a run.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::databases::TestDatabases;
use super::etx_client::{EtxClient, Procedure};
use super::protocol::{Protocol, ProtocolRunner};
use super::registers;
use super::two_phase_commit::TwoPhaseCommit;

/// A protocol, ready to run.
pub(crate) struct Participant {
    pub(crate) protocol: Protocol,
    pub(crate) runner: Arc<dyn ProtocolRunner>,
}

/// Options of the setup.
pub(crate) struct SetupOptions<'a> {
    pub(crate) pair: &'a TestDatabases,
    /// For logs and registers.
    pub(crate) folder: &'a Path,
    pub(crate) clients: usize,
    /// The number of the first cluster. Coordinators that share a database need different numbers: a
    /// coordinator aborts branches of unknown incarnations of its own cluster.
    pub(crate) cluster: u32,
    /// Whether to record the time of each phase; then there is one client.
    pub(crate) timed: bool,
}

impl SetupOptions<'_> {
    pub(crate) async fn start(&self, protocols: &[Protocol]) -> Result<Vec<Participant>> {
        std::fs::create_dir_all(self.folder)?;
        let mut participants = Vec::new();
        for (place, protocol) in protocols.iter().enumerate() {
            let runner = self.runner(*protocol, self.cluster + place as u32).await?;
            participants.push(Participant { protocol: *protocol, runner });
        }
        Ok(participants)
    }

    async fn runner(&self, protocol: Protocol, cluster: u32) -> Result<Arc<dyn ProtocolRunner>> {
        let Self { pair, folder, clients, timed, .. } = *self;
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
                Arc::new(TwoPhaseCommit::open(protocol, pair, folder, clients).await?)
            }
            Protocol::EtxMemory | Protocol::EtxRaft => {
                let folder = (protocol == Protocol::EtxRaft).then_some(place);
                // They have their own runtime, which cannot start within another one.
                let members =
                    tokio::task::spawn_blocking(move || registers::three(folder.as_deref())).await??;
                Arc::new(EtxClient::open(pair, cluster, procedure, members, clients, timed).await?)
            }
            // Coordinators with decisions in a database have unused registers.
            _ => {
                let registers = vec![Arc::new(registers::embedded(&place)?)];
                Arc::new(EtxClient::open(pair, cluster, procedure, registers, clients, timed).await?)
            }
        })
    }
}
