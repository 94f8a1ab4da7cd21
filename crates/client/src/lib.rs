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
//! An operation that must survive a crash of the client program goes through an [`Outbox`]:
//!
//! ```no_run
//! # async fn example(client: jeton_client::Client) -> Result<(), jeton_client::OutboxError> {
//! let outbox = jeton_client::Outbox::open("outbox", client).await?;
//! outbox.add("clicks", 1).store().await?; // On disk with its id; delivered in the background.
//! # Ok(())
//! # }
//! ```
//!
//! [`transactions::Transactions`] executes transactions over several databases exactly once (feature
//! `transactions`, on by default). [`http::HttpClient`] is the HTTP client it uses (feature `http`).
//!
//! Invariants:
//! - *One operation, one id.* The client generates the id before the first attempt and encodes the command
//!   once with it; every retry and hedge sends the same bytes.
//! - *Never a new id after an unknown outcome.* An operation that may have been counted ends with
//!   [`Error::Unknown`], which contains the id: a retry with it is safe, a retry with another id is not.
//! - *A definite error is definite.* Every other error of a write means that nothing changed, except
//!   [`Error::Expired`].
//!
//! The pure parts (no clock, no random numbers, no I/O): [`RetryState`], [`IdGenerator::next`], the encoding
//! of commands and the parsing of replies.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod call;
mod client;
mod command;
mod connection;
mod error;
#[cfg(feature = "http")]
pub mod http;
mod id;
mod id_generator;
mod in_flight;
mod options;
mod outbox;
mod outcome;
mod retry;
mod system;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "transactions")]
pub mod transactions;

pub use call::{Add, AddMany, Change, Get, Lookup};
pub use client::Client;
pub use error::{AttemptError, Error, ServerError};
pub use id::{Id, IdError};
pub use id_generator::{IdGenerator, uuid7};
pub use jeton_core::ErrorCode;
pub use options::Options;
pub use outbox::{Limits as OutboxLimits, Outbox, OutboxEntry, OutboxError, Receipt, Undelivered};
pub use outcome::{ManyOutcome, OperationStatus, Outcome, Status, StoredValue};
pub use retry::{AttemptResult, Backoff, FanOut, Policy, RetryAction, RetryOutcome, RetryState};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
