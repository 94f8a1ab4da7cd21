//! The calls of a client. A call is sent when it is awaited.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use jeton_resp::reply_parser::Value;

use crate::client::{Client, RetriesExhausted};
use crate::command::{self, Write, check_key};
use crate::error::Error;
use crate::id::Id;
use crate::outcome::{self, ManyOutcome, OperationStatus, Outcome, StoredValue};

type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The parts common to all calls.
struct Call {
    client: Client,
    id: Option<Id>,
    deadline: Option<Duration>,
}

impl Call {
    fn new(client: Client) -> Self {
        Self { client, id: None, deadline: None }
    }

    async fn write(self, write: Write) -> Result<(Value, Id), Error> {
        write.check()?;
        // The id exists before the first attempt, and does not change.
        let id = self.id.unwrap_or_else(|| self.client.new_id());
        let command = write.command(&id);
        match self.client.send_with_retries(command, self.deadline).await {
            Ok(value) => Ok((value, id)),
            Err(exhausted) => Err(exhausted.of_write(id)),
        }
    }
}

macro_rules! call_options {
    ($name:ident, $output:ty) => {
        impl $name {
            /// How long to retry, instead of the client's option.
            pub fn deadline(mut self, deadline: Duration) -> Self {
                self.call.deadline = Some(deadline);
                self
            }
        }

        impl IntoFuture for $name {
            type Output = Result<$output, Error>;
            type IntoFuture = CallFuture<$output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.run())
            }
        }
    };
    ($name:ident, $output:ty, id) => {
        call_options!($name, $output);

        impl $name {
            /// Sends the operation with this id instead of a new one: an id from its source, or the id of an
            /// operation whose outcome is unknown.
            pub fn id(mut self, id: Id) -> Self {
                self.call.id = Some(id);
                self
            }
        }
    };
}

/// Adds to a counter.
#[must_use = "nothing is sent before it is awaited"]
pub struct Add {
    call: Call,
    key: Vec<u8>,
    delta: i64,
    min: Option<i64>,
    max: Option<i64>,
}

call_options!(Add, Outcome, id);

impl Add {
    pub(crate) fn new(client: Client, key: &[u8], delta: i64) -> Self {
        Self { call: Call::new(client), key: key.into(), delta, min: None, max: None }
    }

    /// Refuses the addition if the counter would fall below this bound.
    pub fn min(mut self, min: i64) -> Self {
        self.min = Some(min);
        self
    }

    /// Refuses the addition if the counter would rise above this bound.
    pub fn max(mut self, max: i64) -> Self {
        self.max = Some(max);
        self
    }

    async fn run(self) -> Result<Outcome, Error> {
        let Self { call, key, delta, min, max } = self;
        let (value, id) = call.write(Write::Add { key, delta, min, max }).await?;
        outcome::outcome(&value, id.clone())
            .map_err(|error| RetriesExhausted::unexpected(error.0).of_write(id))
    }
}

/// Adds to several counters, all or none.
#[must_use = "nothing is sent before it is awaited"]
pub struct AddMany {
    call: Call,
    changes: Vec<(Vec<u8>, i64)>,
}

call_options!(AddMany, ManyOutcome, id);

impl AddMany {
    pub(crate) fn new<K: AsRef<[u8]>>(client: Client, changes: impl IntoIterator<Item = (K, i64)>) -> Self {
        let changes = changes.into_iter().map(|(key, delta)| (key.as_ref().into(), delta)).collect();
        Self { call: Call::new(client), changes }
    }

    async fn run(self) -> Result<ManyOutcome, Error> {
        let (value, id) = self.call.write(Write::AddMany { changes: self.changes }).await?;
        outcome::many(&value, id.clone()).map_err(|error| RetriesExhausted::unexpected(error.0).of_write(id))
    }
}

/// Sets, resets or deletes a value.
#[must_use = "nothing is sent before it is awaited"]
pub struct Change {
    call: Call,
    write: Write,
}

call_options!(Change, Outcome, id);

impl Change {
    pub(crate) fn new(client: Client, write: Write) -> Self {
        Self { call: Call::new(client), write }
    }

    async fn run(self) -> Result<Outcome, Error> {
        let (value, id) = self.call.write(self.write).await?;
        outcome::outcome(&value, id.clone())
            .map_err(|error| RetriesExhausted::unexpected(error.0).of_write(id))
    }
}

/// Reads a value.
#[must_use = "nothing is sent before it is awaited"]
pub struct Get {
    call: Call,
    key: Vec<u8>,
}

call_options!(Get, Option<StoredValue>);

impl Get {
    pub(crate) fn new(client: Client, key: &[u8]) -> Self {
        Self { call: Call::new(client), key: key.into() }
    }

    async fn run(self) -> Result<Option<StoredValue>, Error> {
        check_key(&self.key)?;
        let reply = self.call.client.send_with_retries(command::get(&self.key), self.call.deadline);
        let value = reply.await.map_err(RetriesExhausted::of_read)?;
        outcome::stored_value(value).map_err(|error| RetriesExhausted::unexpected(error.0).of_read())
    }
}

/// Reads the status of an operation by its id.
#[must_use = "nothing is sent before it is awaited"]
pub struct Lookup {
    call: Call,
    id: Id,
    table: Option<String>,
}

call_options!(Lookup, OperationStatus);

impl Lookup {
    pub(crate) fn new(client: Client, id: Id) -> Self {
        Self { call: Call::new(client), id, table: None }
    }

    /// The table of the operation, if it is not the default table.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    async fn run(self) -> Result<OperationStatus, Error> {
        let command = command::operation(&self.id, self.table.as_deref());
        let value = self
            .call
            .client
            .send_with_retries(command, self.call.deadline)
            .await
            .map_err(RetriesExhausted::of_read)?;
        outcome::operation_status(&value).map_err(|error| RetriesExhausted::unexpected(error.0).of_read())
    }
}
