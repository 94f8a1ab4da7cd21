//! The client: ids, retries, failover, an outbox.
//!
//! ```no_run
//! # async fn example() -> Result<(), jeton_client::Error> {
//! use jeton_client::{Client, Options};
//!
//! let client = Client::connect(Options::to(["127.0.0.1:6380"])).await?;
//! let outcome = client.add("clicks", 1).await?;
//! println!("{} clicks", outcome.value.unwrap_or_default());
//! # Ok(())
//! # }
//! ```
//!
//! An operation that must survive the crash of the program itself goes through an [`Outbox`]:
//!
//! ```no_run
//! # async fn example(client: jeton_client::Client) -> Result<(), jeton_client::OutboxError> {
//! let outbox = jeton_client::Outbox::open("outbox", client).await?;
//! outbox.add("clicks", 1).keep().await?; // On disk; delivered in the background, with the id that it has now.
//! # Ok(())
//! # }
//! ```
//!
//! Transactions over several databases, exactly once, are asked for with [`transactions::Transactions`] (feature `transactions`, on by itself).
//!
//! What always holds here:
//! - *One operation, one id.* The id is made before the first send; the command is written down once, with it, and every
//!   retry and hedge sends those bytes.
//! - *Never a new id on an unknown outcome.* An operation that may have been counted ends with [`Error::Unknown`], which
//!   carries the id: asking again with it is safe, asking with another is not.
//! - *A definite error is definite.* Any other error about a write says that nothing changed, with the one exception that
//!   it names itself: [`Error::Expired`].
//!
//! The pure parts (no clock, no chance, no I/O): [`IdGenerator`], [`RetryState`], and what is said to a server and by it. Around
//! them: a line is a connection with its task, shared by all callers; the client drives a course over lines.

#![forbid(unsafe_code)]

mod call;
mod client;
mod command;
mod connection;
mod error;
mod id;
mod id_generator;
mod in_flight;
mod options;
mod outbox;
mod outcome;
mod retry;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "transactions")]
pub mod transactions;

pub use call::{Add, AddMany, Change, Get, Lookup};
pub use client::Client;
pub use error::{AttemptError, Code, Error, ServerError};
pub use id::{Id, IdError};
pub use id_generator::IdGenerator;
pub use options::Options;
pub use outbox::{Limits as OutboxLimits, Outbox, OutboxEntry, OutboxError, Receipt, Undelivered};
pub use outcome::{ManyOutcome, OperationStatus, Outcome, Status, StoredValue};
pub use retry::{AttemptResult, Backoff, Policy, RetryAction, RetryOutcome, RetryState};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
