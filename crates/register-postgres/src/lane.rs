//! A lane: one connection for requests of one kind, which are sent one behind the other without waiting for answers.

use std::future::Future;
use std::sync::Arc;

use jeton_register::Failure;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_postgres::{Config, Error};

use crate::connection::{Link, Session};
use crate::failure::{Trouble, unreachable};
use crate::options::Options;

/// A connection and what is made of it when it is lost.
#[derive(Debug)]
pub struct Lane {
    link: Mutex<Link>,
    options: Options,
}

/// Whether doing something twice is the same as doing it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It is: when a connection is lost it is asked again.
    Harmless,
    /// It is not: then whoever asked is told of the doubt.
    Telling,
}

impl Lane {
    pub fn new(config: Config, options: Options) -> Arc<Self> {
        Arc::new(Self { link: Mutex::new(Link::new(config, options.clone())), options })
    }

    /// Asks until there is an answer, or no patience left.
    pub async fn ask<T, A>(&self, repeat: Repeat, ask: impl Fn(Arc<Session>) -> A) -> Result<T, Failure>
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
                Ok(Err(error)) => Trouble::of(&error),
                Err(_) => Trouble::Lost("no answer".into()),
            };
            let in_time = Instant::now() < deadline;
            match trouble {
                Trouble::Again(_) if in_time => {}
                Trouble::Again(text) => return Err(Failure::Unavailable(text)),
                Trouble::Refused(failure) => return Err(failure),
                Trouble::Lost(text) => {
                    self.link.lock().await.give_up(&session);
                    match repeat {
                        Repeat::Harmless if in_time => {}
                        Repeat::Harmless => return Err(Failure::Unavailable(text)),
                        Repeat::Telling => return Err(Failure::Unknown(text)),
                    }
                }
            }
        }
    }
}
