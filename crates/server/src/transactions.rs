//! Transactions, if the server has some: known from the start, taken from the moment on in which databases and registers are there.

use std::sync::{Arc, OnceLock};

use jeton_etx::TransactionService;

/// Where transactions are taken.
#[derive(Default)]
pub struct Transactions {
    is_wanted: bool,
    desk: OnceLock<Arc<dyn TransactionService>>,
    leader: OnceLock<Box<Leader>>,
}

/// Tells the number of the server that leads, if one does.
type Leader = dyn Fn() -> Option<u64> + Send + Sync;

impl Transactions {
    /// None will ever be taken.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Some will be taken as soon as there is a desk.
    pub fn to_come() -> Arc<Self> {
        Arc::new(Self { is_wanted: true, ..Self::default() })
    }

    /// Takes them from now on.
    pub fn open(&self, desk: Arc<dyn TransactionService>) {
        // There is one for each server; whoever came first stays.
        let _is_first = self.desk.set(desk);
    }

    /// Of registers that one of the servers leads: lets be known which.
    pub fn follow(&self, leader: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        let _is_first = self.leader.set(Box::new(leader));
    }

    /// The number of the server that leads the registers, if one does; nothing if they are not led by servers.
    pub fn leader(&self) -> Option<Option<u64>> {
        self.leader.get().map(|leader| leader())
    }

    /// Whether transactions are set up here.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Where they are taken, if they are.
    pub fn desk(&self) -> Option<&Arc<dyn TransactionService>> {
        self.desk.get()
    }
}
