//! Replies and error messages, in the wording of Redis where Redis has one.

use std::borrow::Borrow;

use jeton_auth::AuthError;
use jeton_core::{ErrorCode, OperationError, Value};
use jeton_engine::EngineError;
use jeton_resp::reply_writer::Writer;

use crate::client_memory::MemoryExceeded;
use crate::error_code::engine_error_code;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Ok,
    Word(&'static str),
    Integer(i64),
    Bulk(Vec<u8>),
    /// A verbatim string: a text for people.
    Text(String),
    Null,
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// An error that begins with its code.
    Error(String),
}

pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
/// The outcome of a command without an id.
pub const OUTCOME_UNKNOWN: &str =
    "IDBUSY outcome unknown: the command is not complete yet, and a change may still take effect";
pub const OUTCOME_UNKNOWN_RETRY: &str =
    "IDBUSY outcome unknown: the first attempt is not durable yet; retry with the same id";
pub const CROSS: &str = "CROSSSLOT Keys in request don't hash to the same slot; \
    give them the same hash tag, as {user7}.a and {user7}.b have";

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Bulk(text.into())
    }
}

impl From<Option<i64>> for Reply {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Null, Self::Integer)
    }
}

impl Reply {
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// The value of a key as a bulk string or null.
    pub fn value(value: Option<&Value>) -> Self {
        value.map_or(Self::Null, |value| Self::Bulk(value.text()))
    }

    /// The value of a key as an integer, if it is a counter.
    pub fn counter_or_text(value: Option<&Value>) -> Self {
        value.and_then(Value::counter).map_or_else(|| Self::value(value), Self::Integer)
    }

    pub fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Ok => writer.simple("OK"),
            Self::Word(word) => writer.simple(word),
            Self::Integer(number) => writer.integer(*number),
            Self::Bulk(bytes) => writer.bulk(bytes),
            Self::Null => writer.null(),
            Self::Array(all) => {
                writer.array(all.len());
                all.iter().for_each(|one| one.write(writer));
            }
            Self::Set(all) => {
                writer.set(all.len());
                all.iter().for_each(|one| one.write(writer));
            }
            Self::Map(pairs) => {
                writer.map(pairs.len());
                pairs.iter().flat_map(|(key, value)| [key, value]).for_each(|one| one.write(writer));
            }
            Self::Text(text) => writer.verbatim(*b"txt", text.as_bytes()),
            Self::Error(text) => writer.error(text),
        }
    }
}

/// Error message for a wrong number of arguments. A subcommand is written `command|subcommand`.
pub fn arity_error(name: &[u8]) -> String {
    format!("ERR wrong number of arguments for '{}' command", shown(name).to_ascii_lowercase())
}

/// Bytes of a request for an error message: up to the first zero byte, cut where Redis cuts, and escaped.
pub fn shown(bytes: &[u8]) -> String {
    escape(cut(bytes, SHOWN_MAX))
}

/// Maximum bytes of an argument in an error message.
const SHOWN_MAX: usize = 128;

fn cut(bytes: &[u8], room: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(room)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            // Line ends need no escape: the reply writer turns them into spaces.
            b' '..=b'~' | b'\t' | b'\r' | b'\n' => text.push(char::from(*byte)),
            other => text.push_str(&other.escape_ascii().to_string()),
        }
    }
    text
}

pub fn unknown_command<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> String {
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    let mut used = 0;
    for argument in arguments {
        if used >= SHOWN_MAX {
            break;
        }
        let argument = cut(argument, SHOWN_MAX - used);
        text.push_str(&format!("'{}' ", escape(argument)));
        used += argument.len() + 3;
    }
    text
}

/// Error message for a failed authentication or authorization.
pub fn denied(error: AuthError) -> String {
    let code = if error.is_about_the_token() { ErrorCode::TokenInvalid } else { ErrorCode::Forbidden };
    error_line(code, error)
}

/// Error message for an engine error of a command without an id. Errors of Redis have its texts.
pub fn engine_error(error: impl Borrow<EngineError>) -> String {
    let error = error.borrow();
    match (engine_error_code(error), error) {
        (ErrorCode::NotACounter, _) => NOT_AN_INTEGER.into(),
        (ErrorCode::Overflow, _) => OVERFLOW.into(),
        (code, EngineError::Busy(why)) => error_line(code, format!("{why}; wait, then retry")),
        (code, EngineError::Moved) => error_line(code, "no node owns the key at present; wait, then retry"),
        (code, EngineError::Closed) => {
            error_line(code, "the server is shutting down; a change may have taken effect")
        }
        (code, error) => error_line(code, error),
    }
}

/// Error message for an engine error of an operation with an id, which can be retried.
pub fn engine_error_with_id(error: &EngineError) -> String {
    match error {
        EngineError::Busy(_) | EngineError::Moved | EngineError::Closed => {
            error_line(engine_error_code(error), error)
        }
        other => engine_error(other),
    }
}

/// Error message of a connection that is closed for its memory.
pub fn memory_exceeded(exceeded: MemoryExceeded) -> String {
    format!("ERR closed: {exceeded}")
}

/// Error message for an operation that breaks a limit.
pub fn invalid_operation(error: OperationError) -> String {
    match error {
        OperationError::SeveralRoutingKeys => CROSS.into(),
        other => format!("ERR {other}"),
    }
}

fn error_line(code: ErrorCode, text: impl std::fmt::Display) -> String {
    format!("{} {text}", code.resp_prefix().unwrap_or("ERR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_operations_with_an_id_mention_it() {
        for error in [EngineError::Busy("too many requests"), EngineError::Moved, EngineError::Closed] {
            let [without, with] = [engine_error(&error), engine_error_with_id(&error)];
            assert!(
                !without.contains(" id") && with.ends_with("retry with the same id"),
                "{without}; {with}"
            );
            assert_eq!(without.split(' ').next(), with.split(' ').next());
        }
        assert!(
            !OUTCOME_UNKNOWN.contains(" id") && OUTCOME_UNKNOWN_RETRY.ends_with("retry with the same id")
        );
    }

    #[test]
    fn unknown_command_error_matches_redis() {
        let text = unknown_command(b"foo", [&b"a"[..], b"b"].into_iter());
        assert_eq!(text, "ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
        assert_eq!(arity_error(b"GET"), "ERR wrong number of arguments for 'get' command");
        let long = vec![b'x'; 1000];
        assert!(unknown_command(&long, [&long[..], &long[..]].into_iter()).len() < 400);
    }
}
