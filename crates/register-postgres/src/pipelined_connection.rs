//! A connection for requests of one kind, which are sent without waiting for the responses of earlier ones.

use std::future::Future;
use std::sync::Arc;

use jeton_register::Error as RegisterError;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_postgres::Error;

use crate::connection::{ReconnectingSession, Session};
use crate::connector::Connector;
use crate::error::{StatementError, unreachable};
use crate::options::Options;

/// A connection that is replaced when it is lost.
#[derive(Debug)]
pub struct PipelinedConnection {
    session: Mutex<ReconnectingSession>,
    options: Options,
}

/// Whether a request is repeated when its connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotence {
    /// It is repeated.
    Idempotent,
    /// It is not repeated, and its outcome is unknown.
    NotIdempotent,
}

impl PipelinedConnection {
    pub fn new(connector: Connector, options: Options) -> Arc<Self> {
        Arc::new(Self { session: Mutex::new(ReconnectingSession::new(connector, options.clone())), options })
    }

    /// Executes a request, with retries until the connect timeout.
    pub async fn execute<T, A>(
        &self,
        idempotence: Idempotence,
        request: impl Fn(Arc<Session>) -> A,
    ) -> Result<T, RegisterError>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let deadline = Instant::now() + self.options.connect_timeout;
        loop {
            let session = self.session.lock().await.session(deadline).await;
            let session = session.map_err(|error| unreachable(&error))?;
            let response = timeout(self.options.statement_timeout, request(Arc::clone(&session))).await;
            let error = match response {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => StatementError::of(&error),
                Err(_) => StatementError::Lost("no response".into()),
            };
            let in_time = Instant::now() < deadline;
            match error {
                StatementError::Conflict(_) if in_time => {}
                StatementError::Conflict(text) => return Err(RegisterError::Unavailable(text)),
                StatementError::Refused(error) => return Err(error),
                StatementError::Lost(text) => {
                    self.session.lock().await.discard(&session);
                    match idempotence {
                        Idempotence::Idempotent if in_time => {}
                        Idempotence::Idempotent => return Err(RegisterError::Unavailable(text)),
                        Idempotence::NotIdempotent => return Err(RegisterError::Unknown(text)),
                    }
                }
            }
        }
    }
}
