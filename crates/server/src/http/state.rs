//! What all requests share, and the store with a deadline.
//!
//! What must hold: a change that the store was asked for is counted and told to those who watch, also when whoever asked has gone or
//! the deadline has passed. So the work is a task of its own, and a request only waits for it.

use std::sync::Arc;

use jeton_auth::AuthContext;
use jeton_core::Operation;
use jeton_engine::{Ask, EngineError, OperationOutcome, Response};
use tokio::sync::watch;

use super::error_mapping::SOON;
use super::problem::{ErrorCode, Problem};
use crate::Service;

/// What all requests share.
#[derive(Clone)]
pub struct App {
    /// The service.
    pub service: Arc<Service>,
    /// Whether the server is closing: then what has no end of its own must end.
    pub closing: watch::Receiver<bool>,
}

impl App {
    /// Does an operation for somebody, or says that there is no answer yet.
    pub async fn apply(&self, pass: &AuthContext, operation: Operation) -> Result<OperationOutcome, Problem> {
        let (service, pass) = (self.service.clone(), pass.clone());
        let work = tokio::spawn(async move { service.apply_as(&pass, operation).await });
        match tokio::time::timeout(self.service.options.request_timeout, work).await {
            Ok(Ok(reply)) => Ok(reply?),
            Ok(Err(_)) => Err(EngineError::Closed.into()),
            Err(_) => Err(no_answer_yet()),
        }
    }

    /// Does many operations and reads for somebody. Without an answer in time there is none to any of them.
    pub async fn submit_batch(&self, pass: &AuthContext, asks: Vec<Ask>) -> Result<Vec<Response>, Problem> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let (service, pass) = (self.service.clone(), pass.clone());
        let requests = asks.into_iter().map(|ask| service.engine.to_request(ask)).collect();
        let work = tokio::spawn(async move { service.submit_as(&pass, requests).await });
        match tokio::time::timeout(self.service.options.request_timeout, work).await {
            Ok(Ok(responses)) => Ok(responses),
            Ok(Err(_)) => Err(EngineError::Closed.into()),
            Err(_) => Err(no_answer_yet()),
        }
    }

    /// Waits for something, but not for ever.
    pub async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        let request_timeout = self.service.options.request_timeout;
        tokio::time::timeout(request_timeout, work).await.map_err(|_| {
            Problem::new(ErrorCode::Busy, "the store did not respond within the request timeout")
                .retry_in(SOON)
        })
    }

    /// Runs what reads or writes the disk where nobody is kept waiting by it.
    pub async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let service = self.service.clone();
        let done = tokio::task::spawn_blocking(move || work(&service)).await;
        done.map_err(|_| EngineError::Closed.into())
    }

    /// Comes back when the server is closing.
    pub async fn closed(&self) {
        let mut closing = self.closing.clone();
        // If nobody is left who could say so, nobody will: then it is not closing.
        if closing.wait_for(|closing| *closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn no_answer_yet() -> Problem {
    let detail = "there was no answer within the time allowed; whether it takes effect is not known here: ask again with the same id";
    Problem::new(ErrorCode::OutcomeUnknown, detail).retry_in(SOON)
}
