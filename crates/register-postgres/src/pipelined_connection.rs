//! A lane: one connection for requests of one kind, which are sent one behind the other without waiting for answers.

use std::future::Future;
use std::sync::Arc;

use jeton_register::Error as RegisterError;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_postgres::{Config, Error};

use crate::connection::{ReconnectingSession, Session};
use crate::error::{StatementError, unreachable};
use crate::options::Options;

/// A connection and what is made of it when it is lost.
#[derive(Debug)]
pub struct PipelinedConnection {
    link: Mutex<ReconnectingSession>,
    options: Options,
}

/// Whether doing something twice is the same as doing it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotence {
    /// It is: when a connection is lost it is asked again.
    Harmless,
    /// It is not: then whoever asked is told of the doubt.
    Telling,
}

impl PipelinedConnection {
    pub fn new(config: Config, options: Options) -> Arc<Self> {
        Arc::new(Self { link: Mutex::new(ReconnectingSession::new(config, options.clone())), options })
    }

    /// Asks until there is an answer, or no patience left.
    pub async fn ask<T, A>(
        &self,
        repeat: Idempotence,
        ask: impl Fn(Arc<Session>) -> A,
    ) -> Result<T, RegisterError>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let deadline = Instant::now() + self.options.connect_patience;
        loop {
            let session = self.link.lock().await.session(deadline).await;
            let session = session.map_err(|error| unreachable(&error))?;
            let answer = timeout(self.options.answer_patience, ask(Arc::clone(&session))).await;
            let trouble = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => StatementError::of(&error),
                Err(_) => StatementError::Lost("no answer".into()),
            };
            let in_time = Instant::now() < deadline;
            match trouble {
                StatementError::Again(_) if in_time => {}
                StatementError::Again(text) => return Err(RegisterError::Unavailable(text)),
                StatementError::Refused(failure) => return Err(failure),
                StatementError::Lost(text) => {
                    self.link.lock().await.give_up(&session);
                    match repeat {
                        Idempotence::Harmless if in_time => {}
                        Idempotence::Harmless => return Err(RegisterError::Unavailable(text)),
                        Idempotence::Telling => return Err(RegisterError::Unknown(text)),
                    }
                }
            }
        }
    }
}
