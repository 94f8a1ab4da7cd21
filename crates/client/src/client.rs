//! The client: executes the retry state machine of each operation over shared connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jeton_core::ErrorCode;
use jeton_resp::reply_parser::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::{Add, AddMany, Change, Get, Lookup};
use crate::command::Write;
use crate::connection::{self, ConnectionConfig};
use crate::error::{AttemptError, Error, ServerError};
use crate::id::Id;
use crate::id_generator::IdGenerator;
use crate::in_flight::{AttemptEvent, InFlight, PendingAttempt};
use crate::options::Options;
use crate::outcome::UnexpectedReply;
use crate::retry::{AttemptResult, Policy, RetryAction, RetryOutcome, RetryState};
use crate::system::random_u64;

const PING: Bytes = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");

/// A client. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    policy: Policy,
    tagged_ids: bool,
    /// The queues of the connections to each address.
    connections: Vec<Vec<mpsc::Sender<PendingAttempt>>>,
    /// Index of the address that responded last; the next operation starts there.
    preferred: AtomicUsize,
    /// Counts operations, to spread them over the connections to an address.
    turn: AtomicUsize,
    id_generator: Mutex<IdGenerator>,
    /// The zero of the times in [`RetryState`].
    started: Instant,
}

/// A command got no usable reply.
pub(crate) struct RetriesExhausted {
    may_have_applied: bool,
    last: AttemptError,
}

impl Client {
    /// Creates a client and connects to one of the servers. Requires a tokio runtime with I/O and time.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let client = Self::new(options)?;
        client.ping().await?;
        Ok(client)
    }

    /// Creates a client that connects at its first use.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check()?;
        let connect = |address: &String| {
            let config = ConnectionConfig {
                address: address.clone(),
                token: options.token.clone(),
                #[cfg(feature = "tls")]
                tls: options.tls.clone(),
                timeout: options.attempt_timeout,
                queue_max: options.queue_max,
            };
            (0..options.connections).map(|_| connection::start(config.clone())).collect()
        };
        Ok(Self(Arc::new(Inner {
            policy: options.policy(),
            tagged_ids: options.tagged_ids,
            connections: options.addresses.iter().map(connect).collect(),
            preferred: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            id_generator: Mutex::default(),
            started: Instant::now(),
        })))
    }

    /// Checks that a server responds.
    pub async fn ping(&self) -> Result<(), Error> {
        let pong = self.send_with_retries(PING, None).await;
        pong.map(drop).map_err(RetriesExhausted::of_read)
    }

    /// Checks that a server responds, with one attempt for each address: reports at once what
    /// [`connect`](Self::connect) retries until the deadline.
    pub async fn probe(&self) -> Result<(), Error> {
        let (mut reply, mut last) = (None, AttemptError::Closed);
        for connections in &self.0.connections {
            let in_flight = Arc::new(InFlight::default());
            if connections[0].send(in_flight.start(0, PING)).await.is_err() {
                continue;
            }
            let event = loop {
                match in_flight.try_next() {
                    Some((_, event)) => break event,
                    None => in_flight.wait().await,
                }
            };
            if evaluate(event, 1, &mut reply, &mut last) == AttemptResult::Answered {
                return Ok(());
            }
        }
        Err(RetriesExhausted { may_have_applied: false, last }.of_read())
    }

    /// Generates an id. Use it to know the id of an operation before the operation is sent.
    pub fn new_id(&self) -> Id {
        let mut generator = self.0.id_generator.lock().unwrap_or_else(PoisonError::into_inner);
        Id::uuid7(generator.generate(), self.0.tagged_ids)
    }

    /// Adds to a counter: `row` of the default table, or `table/row`.
    pub fn add(&self, key: impl AsRef<[u8]>, delta: i64) -> Add {
        Add::new(self.clone(), Write::add(key, delta))
    }

    /// Adds to several counters with the same hash tag, such as `{user7}spent` and `{user7}left`, all or
    /// none.
    pub fn add_many<K: AsRef<[u8]>>(&self, changes: impl IntoIterator<Item = (K, i64)>) -> AddMany {
        AddMany::new(self.clone(), Write::add_many(changes))
    }

    /// Sets a counter, or stores bytes.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl ToString) -> Change {
        self.put(key, value.to_string())
    }

    /// Stores bytes. Bytes that form a decimal integer become a counter.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Change {
        Change::new(self.clone(), Write::set(key, value))
    }

    /// Sets a counter to zero.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> Change {
        Change::new(self.clone(), Write::Reset { key: key.as_ref().into() })
    }

    /// Deletes a counter, or bytes.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Change {
        Change::new(self.clone(), Write::Delete { key: key.as_ref().into() })
    }

    /// Reads the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Get {
        Get::new(self.clone(), key.as_ref())
    }

    /// Reads the status of an operation by its key and its id. An id counts once for each key, or for all
    /// keys of a table with the same hash tag.
    pub fn operation(&self, key: impl AsRef<[u8]>, id: &Id) -> Lookup {
        Lookup::new(self.clone(), key.as_ref().to_vec(), id.clone())
    }

    /// Sends a command until it gets a reply, its retries end, or the caller drops the future.
    pub(crate) async fn send_with_retries(
        &self,
        command: Bytes,
        deadline: Option<Duration>,
    ) -> Result<Value, RetriesExhausted> {
        let inner = &*self.0;
        let policy = Policy { deadline: deadline.or(inner.policy.deadline), ..inner.policy };
        let first = inner.preferred.load(Ordering::Relaxed);
        let turn = inner.turn.fetch_add(1, Ordering::Relaxed);
        let mut retry = RetryState::new(policy, inner.now(), inner.connections.len(), first, false);
        let in_flight = Box::new(CloseOnDrop(Arc::new(InFlight::default())));
        let (mut reply, mut last) = (None, AttemptError::TimedOut);
        loop {
            while let Some((attempt, event)) = in_flight.0.try_next() {
                let result = evaluate(event, inner.connections.len(), &mut reply, &mut last);
                retry.report(inner.now(), attempt, result, random_u64());
            }
            match retry.step(inner.now()) {
                RetryAction::Send { attempt, server } => {
                    let connections = &inner.connections[server];
                    // A second attempt at the same address uses another connection, if there is one.
                    let connection = &connections[(turn + attempt as usize) % connections.len()];
                    let timeout = inner.now() + policy.attempt_timeout;
                    let until = retry.end().map_or(timeout, |end| timeout.min(end));
                    last = match timeout_at(inner.started + until, connection.reserve()).await {
                        Ok(Ok(slot)) => {
                            slot.send(in_flight.0.start(attempt, command.clone()));
                            continue;
                        }
                        Ok(Err(_)) => AttemptError::Closed,
                        Err(_) => AttemptError::TimedOut,
                    };
                    let result = AttemptResult::Lost { sent: false };
                    retry.report(inner.now(), attempt, result, random_u64());
                }
                RetryAction::Abandon { attempt } => {
                    let sent = in_flight.0.abandon(attempt);
                    last = AttemptError::TimedOut;
                    retry.report(inner.now(), attempt, AttemptResult::Lost { sent }, random_u64());
                }
                RetryAction::Wait { until } => {
                    let wait = in_flight.0.wait();
                    match until {
                        Some(until) => tokio::select! {
                            () = wait => {}
                            () = sleep_until(inner.started + until) => {}
                        },
                        None => wait.await,
                    }
                }
                RetryAction::Finished(RetryOutcome::Answered { server, .. }) => {
                    if server != first {
                        inner.preferred.store(server, Ordering::Relaxed);
                    }
                    return reply.ok_or(RetriesExhausted { may_have_applied: true, last });
                }
                RetryAction::Finished(RetryOutcome::Failed { may_have_applied }) => {
                    return Err(RetriesExhausted { may_have_applied, last });
                }
            }
        }
    }
}

impl Inner {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Abandons all attempts when the caller drops the future: attempts that are not sent yet never will be.
struct CloseOnDrop(Arc<InFlight>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Returns what an event means for retries, and stores its reply or its error.
fn evaluate(
    event: AttemptEvent,
    servers: usize,
    reply: &mut Option<Value>,
    last: &mut AttemptError,
) -> AttemptResult {
    let (error, result) = match event {
        AttemptEvent::Reply(Value::Error(line)) => {
            let error = ServerError::new(&line);
            let result = error.attempt_result();
            (AttemptError::Server(error), result)
        }
        AttemptEvent::Reply(value) => {
            *reply = Some(value);
            return AttemptResult::Answered;
        }
        // The server rejected the handshake, before anything was sent.
        AttemptEvent::Failed { sent, error: error @ AttemptError::Server(_) } => {
            (error, AttemptResult::Refused { may_have_applied: sent })
        }
        // A certificate stays untrusted; another server may have a trusted one.
        AttemptEvent::Failed { sent, error: error @ AttemptError::Untrusted { .. } } if servers == 1 => {
            (error, AttemptResult::Refused { may_have_applied: sent })
        }
        AttemptEvent::Failed { sent, error } => (error, AttemptResult::Lost { sent }),
    };
    *last = error;
    result
}

impl From<UnexpectedReply> for RetriesExhausted {
    fn from(UnexpectedReply(reply): UnexpectedReply) -> Self {
        // A Jeton server may have sent it after it applied the command.
        Self { may_have_applied: true, last: AttemptError::UnexpectedReply(reply) }
    }
}

impl RetriesExhausted {
    pub fn of_write(self, id: Id) -> Error {
        match self.last {
            AttemptError::Server(ServerError { code: Some(ErrorCode::IdExpired), message }) => {
                Error::Expired { id, message }
            }
            last if self.may_have_applied => Error::Unknown { id, last },
            last => Self::certain(last),
        }
    }

    pub fn of_read(self) -> Error {
        Self::certain(self.last)
    }

    fn certain(last: AttemptError) -> Error {
        match last {
            AttemptError::Server(error) => match error.code {
                Some(ErrorCode::Busy | ErrorCode::Full) => Error::Busy { message: error.message },
                Some(ErrorCode::Closing) => Error::Unreachable { last: AttemptError::Server(error) },
                _ => Error::Refused(error),
            },
            last => Error::Unreachable { last },
        }
    }
}
