//! The state that all requests share, and calls to the engine with a timeout.
//!
//! What must hold: a submitted operation is counted and published to the change feed, also if the client
//! disconnects or the request times out. So it runs in a task of its own, and the request only waits for the
//! task.

use std::sync::Arc;

use jeton_auth::AuthContext;
use jeton_engine::{Ask, EngineError, Response};
use tokio::sync::watch;

use super::error_mapping::SOON;
use super::problem::{ErrorCode, Problem};
use crate::{Metric, Service};

#[derive(Clone)]
pub struct App {
    pub service: Arc<Service>,
    /// Whether the server is shutting down, which ends streams.
    pub closing: watch::Receiver<bool>,
}

impl App {
    /// Applies operations and reads. After the request timeout the outcome of all of them is unknown.
    pub async fn submit_batch(&self, auth: &AuthContext, asks: Vec<Ask>) -> Result<Vec<Response>, Problem> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let (service, auth) = (self.service.clone(), auth.clone());
        let requests = asks.into_iter().map(|ask| service.engine.to_request(ask)).collect();
        let unknown = "the operation did not complete within the request timeout and may still take effect: \
                       retry with the same id";
        self.complete(unknown, async move { service.submit_as(&auth, requests).await }).await
    }

    /// Runs work that must complete also if the client disconnects. After the request timeout its outcome is
    /// unknown.
    pub async fn complete<T: Send + 'static>(
        &self,
        unknown: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        match tokio::time::timeout(self.service.options.request_timeout, tokio::spawn(work)).await {
            Ok(done) => done.map_err(|_| EngineError::Closed.into()),
            Err(_) => {
                self.service.metrics.add(Metric::RequestTimeoutHit, 1);
                Err(Problem::new(ErrorCode::OutcomeUnknown, unknown).retry_in(SOON))
            }
        }
    }

    /// Waits for a read at most for the request timeout.
    pub async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        let request_timeout = self.service.options.request_timeout;
        tokio::time::timeout(request_timeout, work).await.map_err(|_| {
            self.service.metrics.add(Metric::RequestTimeoutHit, 1);
            Problem::new(ErrorCode::Busy, "the store did not respond within the request timeout")
                .retry_in(SOON)
        })
    }

    /// Runs blocking work on a thread of its own.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let service = self.service.clone();
        let done = tokio::task::spawn_blocking(move || work(&service)).await;
        done.map_err(|_| EngineError::Closed.into())
    }

    /// Returns when the server is shutting down.
    pub async fn closed(&self) {
        let mut closing = self.closing.clone();
        // Without a sender the server never shuts down.
        if closing.wait_for(|closing| *closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
