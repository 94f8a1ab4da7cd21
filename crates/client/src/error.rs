//! What goes wrong: with one attempt, and with an operation as a whole.

use std::fmt;

use crate::id::Id;

/// The first word of an error of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// `BUSY`: too much is under way. Nothing changed.
    Busy,
    /// `MISCONF`: the server has no room to write. Nothing changed.
    NoRoom,
    /// `STORAGE`: something stored there could not be read or written. Whether anything changed is not known.
    Storage,
    /// `QUOTA`: the token may create no more. Nothing changed.
    Quota,
    /// `LOADING`: the server is starting or stopping. Whether anything changed is not known.
    Loading,
    /// `IDBUSY`: another attempt with this id is under way.
    IdBusy,
    /// `IDEXPIRED`: the id is older than the table remembers.
    IdExpired,
    /// `IDMISMATCH`: the id was used for another operation.
    IdMismatch,
    /// `IDFUTURE`: the id is dated in the future: the clock here or there is wrong.
    IdFuture,
    /// `IDREQUIRED`: the table wants an id on every write.
    IdRequired,
    /// `IDFORMAT`: the table does not take ids of this format.
    IdFormat,
    /// `NOSESSION`: nothing is known of the session of a sequenced id.
    NoSession,
    /// `FENCED`: a later life of the same client has written.
    Fenced,
    /// `NOAUTH`: the server wants a token.
    NoAuth,
    /// `WRONGPASS`: the server does not know the token.
    WrongPass,
    /// `NOPERM`: the token does not allow it.
    NoPermission,
    /// `NOTABLE`: there is no such table.
    NoTable,
    /// Any other, such as `ERR`.
    Other(Box<str>),
}

/// What the server said instead of doing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Its first word.
    pub code: Code,
    /// All of it.
    pub message: String,
}

/// What an answer with an error leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retryability {
    /// Nothing changed; ask again later.
    Later,
    /// Something may have changed; ask again later.
    LaterPerhapsDone,
    /// This attempt changed nothing, and another will not fare better.
    Never,
    /// As `Never`, but this attempt may have changed something.
    NeverPerhapsDone,
    /// No attempt with this id has changed what was asked for, or will.
    Settled,
}

impl ServerError {
    pub(crate) fn new(line: &[u8]) -> Self {
        let message = String::from_utf8_lossy(line).into_owned();
        let code = match message.split(' ').next().unwrap_or_default() {
            "BUSY" => Code::Busy,
            "MISCONF" => Code::NoRoom,
            "STORAGE" => Code::Storage,
            "QUOTA" => Code::Quota,
            "LOADING" => Code::Loading,
            "IDBUSY" => Code::IdBusy,
            "IDEXPIRED" => Code::IdExpired,
            "IDMISMATCH" => Code::IdMismatch,
            "IDFUTURE" => Code::IdFuture,
            "IDREQUIRED" => Code::IdRequired,
            "IDFORMAT" => Code::IdFormat,
            "NOSESSION" => Code::NoSession,
            "FENCED" => Code::Fenced,
            "NOAUTH" => Code::NoAuth,
            "WRONGPASS" => Code::WrongPass,
            "NOPERM" => Code::NoPermission,
            "NOTABLE" => Code::NoTable,
            other => Code::Other(other.into()),
        };
        Self { code, message }
    }

    pub(crate) fn weight(&self) -> Retryability {
        match self.code {
            Code::Busy | Code::NoRoom => Retryability::Later,
            // A server that stops gives up what is under way, and does not know what became of it.
            Code::Loading | Code::IdBusy => Retryability::LaterPerhapsDone,
            Code::IdMismatch => Retryability::Settled,
            // A write to disk that failed may still be there after a restart. Servers once said it without a code of its own.
            Code::Storage => Retryability::NeverPerhapsDone,
            Code::Other(_) if self.message.starts_with("ERR storage") => Retryability::NeverPerhapsDone,
            _ => Retryability::Never,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Why an attempt had no answer, or none that ends the operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// There was no connection to send it on. It was not sent.
    #[error("cannot connect to {address}: {why}")]
    Connect {
        /// Where to.
        address: String,
        /// What the system or the server said.
        why: String,
    },
    /// The connection ended before the answer came.
    #[error("the connection to {address} was lost: {why}")]
    Lost {
        /// Where to.
        address: String,
        /// What the system said.
        why: String,
    },
    /// No answer came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The server said this.
    #[error("{0}")]
    Said(ServerError),
    /// The server answered something that is no answer to this.
    #[error("an answer that makes no sense: {0}")]
    Nonsense(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Whether the operation was counted is **not known**. Ask again with the same id: it counts once. With another id it may count twice.
    #[error("whether the operation {id} was counted is not known ({last}); ask again with the same id")]
    Unknown {
        /// The id to ask again with.
        id: Id,
        /// What the last attempt met with.
        last: AttemptError,
    },
    /// The id is older than the table remembers. It may have been counted, or not, and will not be counted now; what is known of it,
    /// [`Client::operation`](crate::Client::operation) tells.
    #[error("{message} (id {id})")]
    Expired {
        /// The id.
        id: Id,
        /// What the server said.
        message: String,
    },
    /// Up to the deadline the server had no time or no room for it. Nothing changed.
    #[error("{message}")]
    Busy {
        /// What the server said.
        message: String,
    },
    /// The server refused it. Nothing changed.
    #[error("{0}")]
    Refused(ServerError),
    /// Up to the deadline there was nobody to send it to, or no answer to a read. Nothing changed.
    #[error("gave up at the deadline: {last}")]
    Unreachable {
        /// What the last attempt met with.
        last: AttemptError,
    },
    /// It cannot be sent as it is. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The code of the server's answer, if that is the reason.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Refused(said)
            | Self::Unknown { last: AttemptError::Said(said), .. }
            | Self::Unreachable { last: AttemptError::Said(said) } => Some(&said.code),
            Self::Expired { .. } => Some(&Code::IdExpired),
            Self::Busy { .. } => Some(&Code::Busy),
            _ => None,
        }
    }

    /// Whether it is certain that the operation was not counted, and is not about to be.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Expired { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_weighed() {
        for (text, weight) in [
            ("BUSY too many requests are waiting", Retryability::Later),
            ("MISCONF writes are refused for now", Retryability::Later),
            ("LOADING the engine is closed", Retryability::LaterPerhapsDone),
            ("IDBUSY", Retryability::LaterPerhapsDone),
            ("IDMISMATCH the id was used", Retryability::Settled),
            ("IDEXPIRED the id is older", Retryability::Never),
            ("NOPERM", Retryability::Never),
            ("ERR increment or decrement would overflow", Retryability::Never),
            ("ERR storage: no", Retryability::NeverPerhapsDone),
            ("STORAGE storage: no", Retryability::NeverPerhapsDone),
            ("QUOTA no more", Retryability::Never),
        ] {
            assert_eq!(ServerError::new(text.as_bytes()).weight(), weight, "{text}");
        }
        assert_eq!(ServerError::new(b"HUH what").code, Code::Other("HUH".into()));
    }
}
