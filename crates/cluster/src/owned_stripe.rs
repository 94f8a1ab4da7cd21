//! A stripe that the node owns: its log and its engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jeton_engine::{AppendError, Engine, EngineError, OperationOutcome, Options, Request, Response};
use jeton_register::Registers;
use jeton_wal::Error as LogError;
use tokio::sync::RwLock;

use crate::deployment::Stripe;
use crate::node::Freshness;
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

/// Options of the engine of one stripe of several.
pub(crate) fn divided(options: &Options, stripe: &Stripe, stripes: usize) -> Options {
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
    pub fn new(stripe: Stripe, log: Arc<StripeLog<R>>, engine: Engine<StripeLog<R>>) -> Self {
        Self { stripe, log, engine, running: RwLock::new(()), operations: AtomicU64::new(0) }
    }

    /// Executes requests. What depends on the state of the stripe is proved to be of its owner.
    pub async fn execute(&self, requests: Vec<Request>, freshness: Freshness) -> Vec<Response> {
        let _running = self.running.read().await;
        let reads = |request: &Request| !matches!(request, Request::Apply { .. });
        let is_fresh = match freshness {
            Freshness::Linearizable => false,
            // Checked before the read: the proof must not be later than the value by more than that.
            Freshness::MaxStaleness(time) => self.log.metrics().proved_ago().is_some_and(|ago| ago < time),
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
