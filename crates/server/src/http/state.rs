//! The state that all requests share, and calls to the engine with a timeout.
//!
//! What must hold: a submitted operation is counted and published to the change feed, also if the client
//! disconnects or the request times out. So it runs in a task of its own, and the request only waits for the
//! task.

use std::sync::Arc;

use jeton_auth::AuthContext;
use jeton_engine::{Ask, EngineError, Response};
use tokio::sync::watch;

use super::body::out_of_memory;
use super::error_mapping::SOON;
use super::problem::{ErrorCode, Problem};
use crate::{Account, Metric, Service};

/// Memory of a request to the engine besides what it writes to the log: its parts of fixed size, and its
/// response.
const REQUEST_BYTES: usize = 512;

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
        let requests: Vec<_> = asks.into_iter().map(|ask| service.engine.to_request(ask)).collect();
        // Charged until the engine has responded, because the connection may be closed before that.
        let mut memory = Account::new(service.client_memory.clone());
        let bytes = requests.iter().map(|one| REQUEST_BYTES + 2 * one.value_bytes_max()).sum();
        memory.charge(bytes).map_err(out_of_memory)?;
        let unknown = "the operation did not complete within the request timeout and may still take effect: \
                       retry with the same id";
        let work = async move {
            let responses = service.submit_as(&auth, requests).await;
            drop(memory);
            responses
        };
        self.complete(unknown, work).await
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_auth::Access;
    use jeton_core::{Change, Column, Operation};
    use jeton_engine::Engine;

    use super::*;
    use crate::Options;

    #[tokio::test]
    async fn requests_are_charged_after_the_client_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Engine::open(folder.path(), jeton_engine::Options::default()).unwrap());
        let access = Arc::new(Access::open_to_all());
        let service = Arc::new(Service::new(engine, access, Options::default()).unwrap());
        let app = App { service: service.clone(), closing: watch::channel(false).1 };
        let auth = service.access.anonymous().unwrap();
        let table = service.engine.table("default").unwrap();
        let put = |row: u32| {
            let cell = service.engine.cell(&table, &row.to_be_bytes(), &Column::unnamed()).unwrap();
            Ask::Apply(Operation::single(None, cell, Change::Put(vec![0; 1000].into())).unwrap())
        };
        // This thread runs the work only when the test awaits something else.
        let mut request = Box::pin(app.submit_batch(&auth, (0..100).map(put).collect()));
        assert!(futures_util::poll!(&mut request).is_pending());
        drop(request);
        assert!(service.client_memory.charged() > 200_000, "{}", service.client_memory.charged());
        while service.client_memory.charged() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let cell = service.engine.cell(&table, &7_u32.to_be_bytes(), &Column::unnamed()).unwrap();
        let read = app.submit_batch(&auth, vec![Ask::Read(cell)]).await.unwrap();
        assert!(matches!(&read[..], [Response::Read(Ok(Some(_)))]), "{read:?}");
    }
}
