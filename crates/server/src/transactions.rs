//! The transaction service of a server. It is available once databases and registers respond.

use std::sync::{Arc, OnceLock};

use jeton_etx::TransactionService;

/// Transactions over databases, if the server is configured for them.
#[derive(Default)]
pub struct Transactions {
    is_configured: bool,
    service: OnceLock<Arc<dyn TransactionService>>,
    leader: OnceLock<Box<Leader>>,
}

/// Returns the number of the server that leads the registers, if one does.
type Leader = dyn Fn() -> Option<u64> + Send + Sync;

impl Transactions {
    pub fn none() -> Arc<Self> {
        Arc::default()
    }

    /// A server with transactions, which wait for [`Transactions::set_service`].
    pub fn configured() -> Arc<Self> {
        Arc::new(Self { is_configured: true, ..Self::default() })
    }

    /// Makes the service available. Only the first call has an effect.
    pub fn set_service(&self, service: Arc<dyn TransactionService>) {
        let _is_first = self.service.set(service);
    }

    /// Sets the function that returns the leader of replicated registers. Only the first call has an effect.
    pub fn set_leader(&self, leader: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        let _is_first = self.leader.set(Box::new(leader));
    }

    /// The number of the server that leads the registers, if one does; `None` if they are not replicated.
    pub fn leader(&self) -> Option<Option<u64>> {
        self.leader.get().map(|leader| leader())
    }

    pub fn is_configured(&self) -> bool {
        self.is_configured
    }

    pub fn service(&self) -> Option<&Arc<dyn TransactionService>> {
        self.service.get()
    }
}
