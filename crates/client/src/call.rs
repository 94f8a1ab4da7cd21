//! The calls of a client. A call is sent when it is awaited.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use jeton_resp::reply_parser::Value;

use crate::client::{Client, RetriesExhausted};
use crate::command::{self, Write, check_key};
use crate::error::Error;
use crate::id::Id;
use crate::outcome::{self, ManyOutcome, OperationStatus, Outcome, StoredValue, UnexpectedReply};

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

    async fn write<T>(
        self,
        write: Write,
        parse: fn(&Value, Id) -> Result<T, UnexpectedReply>,
    ) -> Result<T, Error> {
        write.check()?;
        // The id exists before the first attempt, and does not change.
        let id = self.id.unwrap_or_else(|| self.client.new_id());
        let reply = self.client.send_with_retries(write.command(&id), self.deadline).await;
        reply.and_then(|value| Ok(parse(&value, id.clone())?)).map_err(|exhausted| exhausted.of_write(id))
    }

    async fn read<T>(
        self,
        command: Bytes,
        parse: fn(Value) -> Result<T, UnexpectedReply>,
    ) -> Result<T, Error> {
        let reply = self.client.send_with_retries(command, self.deadline).await;
        reply.and_then(|value| Ok(parse(value)?)).map_err(RetriesExhausted::of_read)
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
}

macro_rules! write_call {
    ($(#[$doc:meta])* $name:ident, $output:ty, $parse:path) => {
        $(#[$doc])*
        #[must_use = "nothing is sent before it is awaited"]
        pub struct $name {
            call: Call,
            write: Write,
        }

        impl $name {
            pub(crate) fn new(client: Client, write: Write) -> Self {
                Self { call: Call::new(client), write }
            }

            /// Sends the operation with this id instead of a new one: an id from its source, or the id of an
            /// operation whose outcome is unknown.
            pub fn id(mut self, id: Id) -> Self {
                self.call.id = Some(id);
                self
            }

            async fn run(self) -> Result<$output, Error> {
                self.call.write(self.write, $parse).await
            }
        }

        call_options!($name, $output);
    };
}

write_call!(
    /// Adds to a counter.
    Add,
    Outcome,
    outcome::outcome
);
write_call!(
    /// Adds to several counters, all or none.
    AddMany,
    ManyOutcome,
    outcome::many
);
write_call!(
    /// Sets, resets or deletes a value.
    Change,
    Outcome,
    outcome::outcome
);

impl Add {
    /// Refuses the addition if the counter would fall below this bound.
    pub fn min(mut self, min: i64) -> Self {
        self.write.set_min(min);
        self
    }

    /// Refuses the addition if the counter would rise above this bound.
    pub fn max(mut self, max: i64) -> Self {
        self.write.set_max(max);
        self
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
        self.call.read(command::get(&self.key), outcome::stored_value).await
    }
}

/// Reads the status of an operation by its key and id.
#[must_use = "nothing is sent before it is awaited"]
pub struct Lookup {
    call: Call,
    key: Vec<u8>,
    id: Id,
}

call_options!(Lookup, OperationStatus);

impl Lookup {
    pub(crate) fn new(client: Client, key: Vec<u8>, id: Id) -> Self {
        Self { call: Call::new(client), key, id }
    }

    async fn run(self) -> Result<OperationStatus, Error> {
        check_key(&self.key)?;
        let command = command::operation(&self.key, &self.id);
        self.call.read(command, |value| outcome::operation_status(&value)).await
    }
}
