//! The state that all requests share, and calls to the engine with a timeout.
//!
//! What must hold: a submitted operation is counted and published to the change feed, also if the client
//! disconnects or the request times out. So it runs in a task of its own, and the request only waits for the
//! task.

use std::sync::Arc;

use jeton_auth::AuthContext;
use jeton_core::Operation;
use jeton_engine::{Ask, EngineError, OperationOutcome, Response};
use tokio::sync::watch;

use super::error_mapping::SOON;
use super::problem::{ErrorCode, Problem};
use crate::Service;

/// The state that all requests share.
#[derive(Clone)]
pub struct App {
    /// The service.
    pub service: Arc<Service>,
    /// Whether the server is shutting down, which ends streams.
    pub closing: watch::Receiver<bool>,
}

impl App {
    /// Applies an operation, or reports an unknown outcome after the request timeout.
    pub async fn apply(&self, auth: &AuthContext, operation: Operation) -> Result<OperationOutcome, Problem> {
        let (service, auth) = (self.service.clone(), auth.clone());
        let work = tokio::spawn(async move { service.apply_as(&auth, operation).await });
        match tokio::time::timeout(self.service.options.request_timeout, work).await {
            Ok(Ok(reply)) => Ok(reply?),
            Ok(Err(_)) => Err(EngineError::Closed.into()),
            Err(_) => Err(outcome_unknown()),
        }
    }

    /// Applies operations and reads. After the request timeout the outcome of all of them is unknown.
    pub async fn submit_batch(&self, auth: &AuthContext, asks: Vec<Ask>) -> Result<Vec<Response>, Problem> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let (service, auth) = (self.service.clone(), auth.clone());
        let requests = asks.into_iter().map(|ask| service.engine.to_request(ask)).collect();
        let work = tokio::spawn(async move { service.submit_as(&auth, requests).await });
        match tokio::time::timeout(self.service.options.request_timeout, work).await {
            Ok(Ok(responses)) => Ok(responses),
            Ok(Err(_)) => Err(EngineError::Closed.into()),
            Err(_) => Err(outcome_unknown()),
        }
    }

    /// Waits for a read at most for the request timeout.
    pub async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        let request_timeout = self.service.options.request_timeout;
        tokio::time::timeout(request_timeout, work).await.map_err(|_| {
            Problem::new(ErrorCode::Busy, "the store did not respond within the request timeout")
                .retry_in(SOON)
        })
    }

    /// Runs blocking work on a thread of its own.
    pub async fn aside<T: Send + 'static>(
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

fn outcome_unknown() -> Problem {
    let detail = "the operation did not complete within the request timeout and may still take effect: retry with the \
                  same id";
    Problem::new(ErrorCode::OutcomeUnknown, detail).retry_in(SOON)
}
