//! The client: drives the course of each operation over lines.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use jeton_resp::reply_parser::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::{Add, AddMany, Change, Get, Lookup};
use crate::command::Write;
use crate::connection::{self, ConnectionConfig};
use crate::error::{AttemptError, Code, Error, Retryability, ServerError};
use crate::id::Id;
use crate::id_generator::IdGenerator;
use crate::in_flight::{AttemptEvent, InFlight, PendingAttempt};
use crate::options::Options;
use crate::retry::{AttemptResult, Policy, RetryAction, RetryOutcome, RetryState};

/// A client. Clones are the same client: they share its connections.
#[derive(Clone)]
pub struct Client(Arc<Inside>);

struct Inside {
    policy: Policy,
    tagged_ids: bool,
    /// The lines to each address.
    lines: Vec<Vec<mpsc::Sender<PendingAttempt>>>,
    /// The address that answered last: the next operation begins there.
    preferred: AtomicUsize,
    turn: AtomicUsize,
    mint: Mutex<IdGenerator>,
    /// The times of courses are counted from here.
    begun: Instant,
}

/// How the drive of a command failed.
pub(crate) struct RetriesExhausted {
    may_have_applied: bool,
    last: AttemptError,
}

impl Client {
    /// A client that has connected to one of the servers. What it needs to run is a tokio runtime with I/O and time.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let client = Self::new(options)?;
        client.ping().await?;
        Ok(client)
    }

    /// A client that connects when it is first used.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check()?;
        let to = |address: &String| {
            let place = ConnectionConfig {
                address: address.clone(),
                token: options.token.clone(),
                #[cfg(feature = "tls")]
                tls: options.tls.clone(),
                patience: options.attempt_timeout,
                queue_max: options.queue_max,
            };
            (0..options.connections).map(|_| connection::begin(place.clone())).collect()
        };
        Ok(Self(Arc::new(Inside {
            policy: options.policy(),
            tagged_ids: options.tagged_ids,
            lines: options.addresses.iter().map(to).collect(),
            preferred: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            mint: Mutex::default(),
            begun: Instant::now(),
        })))
    }

    /// Asks whether a server is there.
    pub async fn ping(&self) -> Result<(), Error> {
        let pong = self.send_with_retries(Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"), None).await;
        pong.map(drop).map_err(RetriesExhausted::of_read)
    }

    /// A new id. To know the id of an operation before it is sent, make it here and give it to the operation.
    pub fn mint(&self) -> Id {
        let bits = mint(&mut self.0.mint.lock().unwrap_or_else(PoisonError::into_inner));
        Id::uuid7(bits, self.0.tagged_ids)
    }

    /// Adds to a counter: `row` of the default table, or `table/row`.
    pub fn add(&self, key: impl AsRef<[u8]>, delta: i64) -> Add {
        Add::new(self.clone(), key.as_ref(), delta)
    }

    /// Adds to several counters of one partition, all or none.
    pub fn add_many<K: AsRef<[u8]>>(&self, changes: impl IntoIterator<Item = (K, i64)>) -> AddMany {
        AddMany::new(self.clone(), changes)
    }

    /// Sets a counter, or puts bytes.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl ToString) -> Change {
        self.put(key, value.to_string())
    }

    /// Puts bytes. If they read as a whole number, it is a counter.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Change {
        let (key, value) = (key.as_ref().into(), value.as_ref().into());
        Change::new(self.clone(), Write::Set { key, value })
    }

    /// Sets a counter to nothing: what was added before does not count any more.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> Change {
        Change::new(self.clone(), Write::Reset { key: key.as_ref().into() })
    }

    /// Deletes a counter, or bytes.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Change {
        Change::new(self.clone(), Write::Delete { key: key.as_ref().into() })
    }

    /// Reads what a key holds.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Get {
        Get::new(self.clone(), key.as_ref())
    }

    /// Asks what became of an id.
    pub fn operation(&self, id: &Id) -> Lookup {
        Lookup::new(self.clone(), id.clone())
    }

    /// Sends a command until it is answered, the course ends, or the caller goes away.
    pub(crate) async fn send_with_retries(
        &self,
        command: Bytes,
        deadline: Option<Duration>,
    ) -> Result<Value, RetriesExhausted> {
        let inside = &*self.0;
        let policy = Policy { deadline: deadline.unwrap_or(inside.policy.deadline), ..inside.policy };
        let first = inside.preferred.load(Ordering::Relaxed);
        let turn = inside.turn.fetch_add(1, Ordering::Relaxed);
        let mut course = RetryState::new(policy, inside.now(), inside.lines.len(), first);
        let mailbox = Box::new(Closing(Arc::new(InFlight::default())));
        let (mut answer, mut last) = (None, AttemptError::TimedOut);
        loop {
            while let Some((attempt, letter)) = mailbox.0.take() {
                let report = read(letter, &mut answer, &mut last);
                course.report(inside.now(), attempt, report, chance());
            }
            match course.step(inside.now()) {
                RetryAction::Send { attempt, address } => {
                    let lines = &inside.lines[address];
                    // A second attempt at the same address goes over another connection, if there is one.
                    let line = &lines[(turn + attempt as usize) % lines.len()];
                    let patience = inside.begun + (inside.now() + policy.attempt_timeout).min(course.end());
                    match timeout_at(patience, line.reserve()).await {
                        Ok(Ok(place)) => place.send(mailbox.0.ticket(attempt, command.clone())),
                        Ok(Err(_)) => {
                            last = AttemptError::Closed;
                            course.report(
                                inside.now(),
                                attempt,
                                AttemptResult::Lost { sent: false },
                                chance(),
                            );
                        }
                        Err(_) => {
                            last = AttemptError::TimedOut;
                            course.report(
                                inside.now(),
                                attempt,
                                AttemptResult::Lost { sent: false },
                                chance(),
                            );
                        }
                    }
                }
                RetryAction::Abandon { attempt } => {
                    let sent = mailbox.0.abandon(attempt);
                    last = AttemptError::TimedOut;
                    course.report(inside.now(), attempt, AttemptResult::Lost { sent }, chance());
                }
                RetryAction::Wait { until } => {
                    tokio::select! {
                        () = mailbox.0.rung() => {}
                        () = sleep_until(inside.begun + until) => {}
                    }
                }
                RetryAction::Over(RetryOutcome::Answered { attempt }) => {
                    let address = (first + attempt as usize) % inside.lines.len();
                    if address != first {
                        inside.preferred.store(address, Ordering::Relaxed);
                    }
                    return answer.ok_or(RetriesExhausted { may_have_applied: true, last });
                }
                RetryAction::Over(RetryOutcome::Failed { may_have_applied }) => {
                    return Err(RetriesExhausted { may_have_applied, last });
                }
            }
        }
    }
}

impl Inside {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Gives all attempts up when the caller goes away: what is not sent yet, will not be.
struct Closing(Arc<InFlight>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a letter means for the course.
fn read(letter: AttemptEvent, answer: &mut Option<Value>, last: &mut AttemptError) -> AttemptResult {
    let (failure, report) = match letter {
        AttemptEvent::Answer(Value::Error(line)) => {
            let said = ServerError::new(&line);
            let report = match said.weight() {
                Retryability::Later => AttemptResult::Busy { may_have_applied: false },
                Retryability::LaterPerhapsDone => AttemptResult::Busy { may_have_applied: true },
                Retryability::Never => AttemptResult::Refused { may_have_applied: false },
                Retryability::NeverPerhapsDone => AttemptResult::Refused { may_have_applied: true },
                Retryability::Settled => AttemptResult::Settled,
            };
            (AttemptError::Said(said), report)
        }
        AttemptEvent::Answer(value) => {
            *answer = Some(value);
            return AttemptResult::Answered;
        }
        // Said before anything was sent: about the connection.
        AttemptEvent::Failed { sent, failure: failure @ AttemptError::Said(_) } => {
            (failure, AttemptResult::Refused { may_have_applied: sent })
        }
        AttemptEvent::Failed { sent, failure } => (failure, AttemptResult::Lost { sent }),
    };
    *last = failure;
    report
}

impl RetriesExhausted {
    /// An answer that makes no sense: it was given after the command was done, or by somebody else.
    pub fn nonsense(text: String) -> Self {
        Self { may_have_applied: true, last: AttemptError::Nonsense(text) }
    }

    /// Why a write failed.
    pub fn of_write(self, id: Id) -> Error {
        match self.last {
            AttemptError::Said(ServerError { code: Code::IdExpired, message }) => {
                Error::Expired { id, message }
            }
            last if self.may_have_applied => Error::Unknown { id, last },
            last => Self::certain(last),
        }
    }

    /// Why a read failed.
    pub fn of_read(self) -> Error {
        Self::certain(self.last)
    }

    fn certain(last: AttemptError) -> Error {
        match last {
            AttemptError::Said(said) => match said.code {
                Code::Busy | Code::NoRoom => Error::Busy { message: said.message },
                Code::Loading => Error::Unreachable { last: AttemptError::Said(said) },
                _ => Error::Refused(said),
            },
            last => Error::Unreachable { last },
        }
    }
}

/// A new id, by the system's time and chance.
pub(crate) fn mint(mint: &mut IdGenerator) -> u128 {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut chance = [0; 16];
    fill(&mut chance);
    mint.next(millis, u128::from_ne_bytes(chance))
}

pub(crate) fn chance() -> u64 {
    let mut chance = [0; 8];
    fill(&mut chance);
    u64::from_ne_bytes(chance)
}

fn fill(bytes: &mut [u8]) {
    // Ids that repeat are counts that are lost: without chance there is no going on.
    getrandom::fill(bytes).expect("the operating system has randomness");
}
