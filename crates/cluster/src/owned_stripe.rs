//! A stripe that the node owns: its log and its engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_executor::block_on;
use jeton_engine::{AppendError, Engine, EngineError, OperationOutcome, Options, Request, Response};
use jeton_register::Registers;
use jeton_wal::Error as LogError;
use tokio::sync::RwLock;

use crate::deployment::{Deployment, Stripe};
use crate::frame::Owner;
use crate::node::Freshness;
use crate::open_error::OpenError;
use crate::status::LocalStripeStatus;
use crate::stripe_log::StripeLog;

pub(crate) struct OwnedStripe<R: Registers> {
    pub stripe: Stripe,
    pub log: Arc<StripeLog<R>>,
    pub engine: Engine<StripeLog<R>>,
    /// Held by requests in flight.
    pub running: RwLock<()>,
    operations: AtomicU64,
}

/// Why a node does not own a stripe that it tried to open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StripeError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Engine(#[from] jeton_engine::OpenError),
    #[error("cannot create the directory of the stripe: {0}")]
    Io(#[from] std::io::Error),
}

/// Options of the engine of one stripe of several.
fn divided(options: &Options, stripe: &Stripe, stripes: usize) -> Options {
    let share = |bytes: usize| (bytes / stripes).max(1 << 20);
    let mut options = options.clone();
    options.partitions = stripe.partitions.clone();
    options.shards = 1;
    options.memory_max = share(options.memory_max);
    options.cache_bytes = share(options.cache_bytes);
    options.dirty_bytes_max = share(options.dirty_bytes_max).max(4 << 20);
    options.lsm.block_cache_bytes = (options.lsm.block_cache_bytes / stripes as u64).max(1 << 20);
    options.lsm.open_files_max = (options.lsm.open_files_max / stripes).max(16);
    options
}

impl<R: Registers> OwnedStripe<R> {
    /// Claims the stripe, unless its owner is alive, and opens its engine in a directory below `directory`.
    /// Blocks.
    pub fn open(
        registers: Arc<R>,
        deployment: Deployment,
        number: u16,
        me: Owner,
        directory: &Path,
        options: &Options,
        is_alive: impl Fn(Owner) -> bool,
    ) -> Result<Self, StripeError> {
        let stripe = deployment.stripe(number).ok_or(OpenError::NoStripe(number))?;
        let folder = directory.join(format!("stripe-{number}"));
        std::fs::create_dir_all(&folder)?;
        let log = StripeLog::open_unless_owned(registers, deployment, number, me, &folder, is_alive)?;
        let log = Arc::new(log);
        let options = divided(options, &stripe, deployment.stripes().into());
        let opened = Engine::open_on(Arc::clone(&log), &folder, options);
        if opened.is_err() {
            // Another node may be able to open it.
            drop(block_on(log.yield_to(me.node)));
        }
        let engine = opened?;
        Ok(Self { stripe, log, engine, running: RwLock::new(()), operations: AtomicU64::new(0) })
    }

    /// Executes requests. What depends on the state of the stripe is proved to be of its owner.
    pub async fn execute(&self, requests: Vec<Request>, freshness: Freshness) -> Vec<Response> {
        let _running = self.running.read().await;
        let reads = |request: &Request| !matches!(request, Request::Apply { .. });
        let is_fresh = match freshness {
            Freshness::Linearizable => false,
            // Checked before the read: the proof must not be later than the value by more than that.
            Freshness::MaxStaleness(time) => self.log.metrics().proved_ago() < time,
        };
        // Before the read, so that both are in flight at the same time.
        let early = (!is_fresh && requests.iter().any(reads)).then(|| self.log.prove());
        let mut responses = self.engine.submit_prehashed(requests).await;
        let mut fresh = 0;
        let mut needs_proof = false;
        for response in &responses {
            match response {
                Response::Applied(Ok(OperationOutcome::Fresh(_))) => fresh += 1,
                // In the log, in this term or before it.
                Response::Applied(Ok(_)) => {}
                // A rejection may depend on a state that is not the latest.
                Response::Applied(Err(EngineError::Rejected(_) | EngineError::NoSuchTable(_))) => {
                    needs_proof = true;
                }
                Response::Applied(Err(_)) => {}
                _ => needs_proof |= !is_fresh,
            }
        }
        self.operations.fetch_add(fresh, Ordering::Relaxed);
        if !needs_proof {
            return responses;
        }
        let proved = match early {
            Some(early) => early.await,
            None => self.log.prove().await,
        };
        if let Err(error) = proved {
            let error = unproved(error);
            for response in &mut responses {
                match response {
                    Response::Applied(Ok(_)) => {}
                    Response::Applied(
                        refusal @ Err(EngineError::Rejected(_) | EngineError::NoSuchTable(_)),
                    ) => {
                        *refusal = Err(error.clone());
                    }
                    Response::Applied(Err(_)) => {}
                    _ => *response = Response::Applied(Err(error.clone())),
                }
            }
        }
        responses
    }

    pub fn status(&self) -> LocalStripeStatus {
        let metrics = self.log.metrics();
        LocalStripeStatus {
            next_slot: jeton_wal::Slot(metrics.next_slot.load(Ordering::Relaxed)),
            log_bytes: metrics.bytes.load(Ordering::Relaxed),
            writes: metrics.writes.load(Ordering::Relaxed),
            operations: self.operations.load(Ordering::Relaxed),
            write_p50: metrics.latency(0.5),
            write_p99: metrics.latency(0.99),
        }
    }
}

/// The error of a read whose owner is not proved: nothing changed.
pub(crate) fn unproved(error: AppendError) -> EngineError {
    match error {
        AppendError::Deposed => EngineError::Moved,
        AppendError::Log(LogError::Busy(_)) => EngineError::Busy("the log lags behind"),
        AppendError::Log(_) => EngineError::Moved,
    }
}
