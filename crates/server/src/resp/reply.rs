//! What is said to a client: results and errors, in the words of Redis where Redis has them.

use jeton_auth::AuthError;
use jeton_core::{ErrorCode, Value};
use jeton_engine::EngineError;
use jeton_resp::reply_writer::Writer;

use crate::error_code::engine_error_code;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A word.
    Word(&'static str),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// Several answers.
    Array(Vec<Reply>),
    /// An error, with its code.
    Error(String),
}

pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
pub const IN_DOUBT: &str =
    "IDBUSY not answered in time: whether it was done is not known yet; ask again with the same id";
pub const CROSS: &str = "CROSSSLOT Keys in request don't hash to the same slot; keys with the same tag in braces, such as {user7}.a and {user7}.b, do";

impl Reply {
    /// An error.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// What a key holds, as Redis tells it.
    pub fn value(value: Option<&Value>) -> Self {
        value.map_or(Self::Null, |value| Self::Bulk(value.text()))
    }

    /// Says it.
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
            Self::Error(text) => writer.error(text),
        }
    }
}

/// What a command is told that has the wrong number of arguments. A subcommand is named after its command and a bar.
pub fn arity_error(name: &[u8]) -> String {
    format!("ERR wrong number of arguments for '{}' command", shown(name).to_ascii_lowercase())
}

/// What a command is told that has the wrong number of arguments.
pub fn wrong_arity(name: &[u8]) -> Reply {
    Reply::Error(arity_error(name))
}

/// What a client sent, to be shown to it again: up to a zero byte and no longer than Redis shows it. What is no text is escaped.
pub fn shown(bytes: &[u8]) -> String {
    escape(cut(bytes, SHOWN_MAX))
}

/// The most bytes of an argument that are shown.
const SHOWN_MAX: usize = 128;

fn cut(bytes: &[u8], room: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(room)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            // Not the end of the line of the error: a writer makes spaces of these.
            b' '..=b'~' | b'\t' | b'\r' | b'\n' => text.push(char::from(*byte)),
            other => text.push_str(&other.escape_ascii().to_string()),
        }
    }
    text
}

/// What a command is told that does not exist.
pub fn unknown<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> Reply {
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
    Reply::Error(text)
}

/// The error line of a request that authentication or authorization rejected.
pub fn denied(error: AuthError) -> String {
    let code = if error.is_about_the_token() { ErrorCode::TokenInvalid } else { ErrorCode::Forbidden };
    error_line(code, error)
}

/// The error line of a request that the engine rejected. Errors that Redis knows have its texts.
pub fn refusal(error: &EngineError) -> String {
    match engine_error_code(error) {
        ErrorCode::NotACounter => NOT_AN_INTEGER.into(),
        ErrorCode::Overflow => OVERFLOW.into(),
        code => error_line(code, error),
    }
}

fn error_line(code: ErrorCode, text: impl std::fmt::Display) -> String {
    format!("{} {text}", code.resp_prefix().unwrap_or("ERR"))
}

#[cfg(test)]
mod tests {
    use jeton_core::Rejection;

    use super::*;

    #[test]
    fn what_went_wrong_is_told_apart_by_its_code() {
        for (why, code) in [
            (EngineError::Busy("too much"), "BUSY"),
            (EngineError::Full("no room".into()), "MISCONF"),
            (EngineError::Storage("damaged".into()), "STORAGE"),
            (EngineError::Withheld("no more".into()), "QUOTA"),
            (EngineError::Closed, "LOADING"),
            (EngineError::NoSuchTable("t".into()), "NOTABLE"),
            (EngineError::Rejected(Rejection::Capacity { what: "ids" }), "BUSY"),
            (EngineError::Rejected(Rejection::Held), "BUSY"),
        ] {
            assert_eq!(refusal(&why).split(' ').next(), Some(code), "{why}");
        }
    }

    #[test]
    fn an_unknown_command_is_told_as_redis_tells_it() {
        let arguments: [&[u8]; 2] = [b"a", b"b"];
        let said = unknown(b"foo", arguments.into_iter());
        assert_eq!(said, Reply::error("ERR unknown command 'foo', with args beginning with: 'a' 'b' "));
        assert_eq!(wrong_arity(b"GET"), Reply::error("ERR wrong number of arguments for 'get' command"));
        let long = vec![b'x'; 1000];
        let Reply::Error(text) = unknown(&long, [&long[..], &long[..]].into_iter()) else {
            panic!("an error")
        };
        assert!(text.len() < 400);
    }
}
