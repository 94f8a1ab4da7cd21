//! What can be asked of a client, each as a call that is made by awaiting it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use jeton_resp::reply_parser::Value;

use crate::client::{Client, RetriesExhausted};
use crate::command::{self, Write, check_key};
use crate::error::Error;
use crate::id::Id;
use crate::outcome::{self, ManyOutcome, OperationStatus, Outcome, StoredValue};

type Calling<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What every call has.
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
        // Before the first send, and never again.
        let id = self.id.unwrap_or_else(|| self.client.mint());
        let command = write.command(&id);
        match self.client.send_with_retries(command, self.deadline).await {
            Ok(value) => Ok((value, id)),
            Err(stuck) => Err(stuck.of_write(id)),
        }
    }
}

macro_rules! choices {
    ($name:ident, $output:ty) => {
        impl $name {
            /// How long to try, instead of what the client's options say.
            pub fn deadline(mut self, deadline: Duration) -> Self {
                self.call.deadline = Some(deadline);
                self
            }
        }

        impl IntoFuture for $name {
            type Output = Result<$output, Error>;
            type IntoFuture = Calling<$output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.run())
            }
        }
    };
    ($name:ident, $output:ty, id) => {
        choices!($name, $output);

        impl $name {
            /// The id to send it with, instead of a new one: one from elsewhere, or that of an operation whose outcome is not known.
            pub fn id(mut self, id: Id) -> Self {
                self.call.id = Some(id);
                self
            }
        }
    };
}

/// An addition to a counter. Await it.
#[must_use = "a call is made by awaiting it"]
pub struct Add {
    call: Call,
    key: Vec<u8>,
    delta: i64,
    min: Option<i64>,
    max: Option<i64>,
}

choices!(Add, Outcome, id);

impl Add {
    pub(crate) fn new(client: Client, key: &[u8], delta: i64) -> Self {
        Self { call: Call::new(client), key: key.into(), delta, min: None, max: None }
    }

    /// Refuse it if the counter would fall below this.
    pub fn min(mut self, min: i64) -> Self {
        self.min = Some(min);
        self
    }

    /// Refuse it if the counter would rise above this.
    pub fn max(mut self, max: i64) -> Self {
        self.max = Some(max);
        self
    }

    async fn run(self) -> Result<Outcome, Error> {
        let Self { call, key, delta, min, max } = self;
        let (value, id) = call.write(Write::Add { key, delta, min, max }).await?;
        outcome::outcome(&value, id.clone()).map_err(|no| RetriesExhausted::nonsense(no.0).of_write(id))
    }
}

/// An addition to several counters. Await it.
#[must_use = "a call is made by awaiting it"]
pub struct AddMany {
    call: Call,
    changes: Vec<(Vec<u8>, i64)>,
}

choices!(AddMany, ManyOutcome, id);

impl AddMany {
    pub(crate) fn new<K: AsRef<[u8]>>(client: Client, changes: impl IntoIterator<Item = (K, i64)>) -> Self {
        let changes = changes.into_iter().map(|(key, delta)| (key.as_ref().into(), delta)).collect();
        Self { call: Call::new(client), changes }
    }

    async fn run(self) -> Result<ManyOutcome, Error> {
        let (value, id) = self.call.write(Write::AddMany { changes: self.changes }).await?;
        outcome::many(&value, id.clone()).map_err(|no| RetriesExhausted::nonsense(no.0).of_write(id))
    }
}

/// Any other write. Await it.
#[must_use = "a call is made by awaiting it"]
pub struct Change {
    call: Call,
    write: Write,
}

choices!(Change, Outcome, id);

impl Change {
    pub(crate) fn new(client: Client, write: Write) -> Self {
        Self { call: Call::new(client), write }
    }

    async fn run(self) -> Result<Outcome, Error> {
        let (value, id) = self.call.write(self.write).await?;
        outcome::outcome(&value, id.clone()).map_err(|no| RetriesExhausted::nonsense(no.0).of_write(id))
    }
}

/// A read. Await it.
#[must_use = "a call is made by awaiting it"]
pub struct Get {
    call: Call,
    key: Vec<u8>,
}

choices!(Get, Option<StoredValue>);

impl Get {
    pub(crate) fn new(client: Client, key: &[u8]) -> Self {
        Self { call: Call::new(client), key: key.into() }
    }

    async fn run(self) -> Result<Option<StoredValue>, Error> {
        check_key(&self.key)?;
        let drive = self.call.client.send_with_retries(command::get(&self.key), self.call.deadline);
        let value = drive.await.map_err(RetriesExhausted::of_read)?;
        outcome::held(value).map_err(|no| RetriesExhausted::nonsense(no.0).of_read())
    }
}

/// The question what became of an id. Await it.
#[must_use = "a call is made by awaiting it"]
pub struct Lookup {
    call: Call,
    id: Id,
    table: Option<String>,
}

choices!(Lookup, OperationStatus);

impl Lookup {
    pub(crate) fn new(client: Client, id: Id) -> Self {
        Self { call: Call::new(client), id, table: None }
    }

    /// The table that the operation was for, if it was not the default one.
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
        outcome::fate(&value).map_err(|no| RetriesExhausted::nonsense(no.0).of_read())
    }
}
