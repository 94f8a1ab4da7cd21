//! The client: drives the course of each operation over lines.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use jeton_resp::value::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::{Add, AddMany, Change, Get, Lookup};
use crate::command::Write;
use crate::course::{Course, End, Policy, Report, Step};
use crate::failure::{Code, Error, Failure, Said, Weight};
use crate::id::Id;
use crate::line::{self, Place};
use crate::mailbox::{Letter, Mailbox, Ticket};
use crate::mint::Mint;
use crate::options::Options;

/// A client. Clones are the same client: they share its connections.
#[derive(Clone)]
pub struct Client(Arc<Inside>);

struct Inside {
    policy: Policy,
    tagged_ids: bool,
    /// The lines to each address.
    lines: Vec<Vec<mpsc::Sender<Ticket>>>,
    /// The address that answered last: the next operation begins there.
    preferred: AtomicUsize,
    turn: AtomicUsize,
    mint: Mutex<Mint>,
    /// The times of courses are counted from here.
    begun: Instant,
}

/// How the drive of a command failed.
pub(crate) struct Stuck {
    perhaps_done: bool,
    last: Failure,
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
            let place = Place {
                address: address.clone(),
                token: options.token.clone(),
                #[cfg(feature = "tls")]
                tls: options.tls.clone(),
                patience: options.attempt_timeout,
                queue_max: options.queue_max,
            };
            (0..options.connections).map(|_| line::begin(place.clone())).collect()
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
        let pong = self.drive(Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"), None).await;
        pong.map(drop).map_err(Stuck::of_read)
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
    pub(crate) async fn drive(&self, command: Bytes, deadline: Option<Duration>) -> Result<Value, Stuck> {
        let inside = &*self.0;
        let policy = Policy { deadline: deadline.unwrap_or(inside.policy.deadline), ..inside.policy };
        let first = inside.preferred.load(Ordering::Relaxed);
        let turn = inside.turn.fetch_add(1, Ordering::Relaxed);
        let mut course = Course::new(policy, inside.now(), inside.lines.len(), first);
        let mailbox = Box::new(Closing(Arc::new(Mailbox::default())));
        let (mut answer, mut last) = (None, Failure::TimedOut);
        loop {
            while let Some((attempt, letter)) = mailbox.0.take() {
                let report = read(letter, &mut answer, &mut last);
                course.report(inside.now(), attempt, report, chance());
            }
            match course.step(inside.now()) {
                Step::Send { attempt, address } => {
                    let lines = &inside.lines[address];
                    // A second attempt at the same address goes over another connection, if there is one.
                    let line = &lines[(turn + attempt as usize) % lines.len()];
                    let patience = inside.begun + (inside.now() + policy.attempt_timeout).min(course.end());
                    match timeout_at(patience, line.reserve()).await {
                        Ok(Ok(place)) => place.send(mailbox.0.ticket(attempt, command.clone())),
                        Ok(Err(_)) => {
                            last = Failure::Closed;
                            course.report(inside.now(), attempt, Report::Lost { sent: false }, chance());
                        }
                        Err(_) => {
                            last = Failure::TimedOut;
                            course.report(inside.now(), attempt, Report::Lost { sent: false }, chance());
                        }
                    }
                }
                Step::Abandon { attempt } => {
                    let sent = mailbox.0.abandon(attempt);
                    last = Failure::TimedOut;
                    course.report(inside.now(), attempt, Report::Lost { sent }, chance());
                }
                Step::Wait { until } => {
                    tokio::select! {
                        () = mailbox.0.rung() => {}
                        () = sleep_until(inside.begun + until) => {}
                    }
                }
                Step::Over(End::Answered { attempt }) => {
                    let address = (first + attempt as usize) % inside.lines.len();
                    if address != first {
                        inside.preferred.store(address, Ordering::Relaxed);
                    }
                    return answer.ok_or(Stuck { perhaps_done: true, last });
                }
                Step::Over(End::Failed { perhaps_done }) => return Err(Stuck { perhaps_done, last }),
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
struct Closing(Arc<Mailbox>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a letter means for the course.
fn read(letter: Letter, answer: &mut Option<Value>, last: &mut Failure) -> Report {
    let (failure, report) = match letter {
        Letter::Answer(Value::Error(line)) => {
            let said = Said::new(&line);
            let report = match said.weight() {
                Weight::Later => Report::Busy { perhaps_done: false },
                Weight::LaterPerhapsDone => Report::Busy { perhaps_done: true },
                Weight::Never => Report::Refused { perhaps_done: false },
                Weight::NeverPerhapsDone => Report::Refused { perhaps_done: true },
                Weight::Settled => Report::Settled,
            };
            (Failure::Said(said), report)
        }
        Letter::Answer(value) => {
            *answer = Some(value);
            return Report::Answered;
        }
        // Said before anything was sent: about the connection.
        Letter::Failed { sent, failure: failure @ Failure::Said(_) } => {
            (failure, Report::Refused { perhaps_done: sent })
        }
        Letter::Failed { sent, failure } => (failure, Report::Lost { sent }),
    };
    *last = failure;
    report
}

impl Stuck {
    /// An answer that makes no sense: it was given after the command was done, or by somebody else.
    pub fn nonsense(text: String) -> Self {
        Self { perhaps_done: true, last: Failure::Nonsense(text) }
    }

    /// Why a write failed.
    pub fn of_write(self, id: Id) -> Error {
        match self.last {
            Failure::Said(Said { code: Code::IdExpired, message }) => Error::Expired { id, message },
            last if self.perhaps_done => Error::Unknown { id, last },
            last => Self::certain(last),
        }
    }

    /// Why a read failed.
    pub fn of_read(self) -> Error {
        Self::certain(self.last)
    }

    fn certain(last: Failure) -> Error {
        match last {
            Failure::Said(said) => match said.code {
                Code::Busy | Code::NoRoom => Error::Busy { message: said.message },
                Code::Loading => Error::Unreachable { last: Failure::Said(said) },
                _ => Error::Refused(said),
            },
            last => Error::Unreachable { last },
        }
    }
}

/// A new id, by the system's time and chance.
pub(crate) fn mint(mint: &mut Mint) -> u128 {
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
