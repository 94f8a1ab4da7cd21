//! What MariaDB's errors mean to us.

use mysql_async::{DriverError, Error};

use crate::query_error::QueryError;
use crate::settings::Settings;

/// There is no such branch; or it is in a session that is still there; or another is just ending it.
pub const UNKNOWN_BRANCH: &str = "1397";
/// The branch is gone: it had changed nothing, and its session is gone too.
pub const ROLLED_BACK: &str = "1402";
/// A lock that another has.
pub const LOCKED: &str = "1205";
/// A key that is there already.
pub const DUPLICATE: &str = "1062";
/// Null where there must be something.
pub const NULL: &str = "1048";

pub fn trouble(settings: &Settings, error: &Error) -> QueryError {
    let error = match error {
        Error::Server(error) => error,
        Error::Driver(
            error @ (DriverError::StmtParamsMismatch { .. }
            | DriverError::MixedParams
            | DriverError::NamedParamsForPositionalQuery
            | DriverError::MissingNamedParam { .. }
            | DriverError::StmtParamsNumberExceedsLimit { .. }),
        ) => return QueryError { is_lost: false, ..settings.statement("parameters", error).into() },
        Error::Url(error) => return settings.setup(error, "correct the URL").into(),
        // Lost, or not understood: either way it is not known what became of the question.
        error => return settings.passing(error).into(),
    };
    let why = format_args!("{} [{}]", error.message, error.code).to_string();
    let failure = if is_passing(error.code) {
        settings.passing(why)
    } else if let Some(remedy) = remedy(error.code) {
        settings.setup(why, remedy)
    } else {
        settings.statement(error.code.to_string(), &error.message)
    };
    QueryError { code: error.code.to_string(), is_lost: is_lost(error.code), failure, table: String::new() }
}

/// The session ends with it.
fn is_lost(code: u16) -> bool {
    // Shut down, killed, and all that is about packets.
    matches!(code, 1053 | 1927 | 1317 | 1152..=1161 | 2006 | 2013)
}

/// May be different the next time.
fn is_passing(code: u16) -> bool {
    // Full disk, memory; connections, of all and of one; locks, deadlocks, also those of XA; a row that changed; a time that ran out.
    let codes =
        [1020, 1021, 1037, 1038, 1041, 1040, 1203, 1226, 1205, 1213, 1402, 1613, 1614, 1969, 1129, 4031];
    is_lost(code) || codes.contains(&code)
}

/// What to do about an error that is in how the database is set up.
fn remedy(code: u16) -> Option<&'static str> {
    match code {
        1044 | 1142 | 1143 | 1227 => {
            Some("grant the account what it needs; all servers must use the same account")
        }
        1045 | 1698 => Some("correct account and password"),
        1049 | 1046 => Some("create the database, or name it in the URL"),
        1290 | 1836 => Some("it is read-only; give the address of the primary"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        for code in [1205, 1213, 1040, 2006, 2013, 1053, 1927, 1969] {
            assert!(is_passing(code), "{code}");
        }
        for code in [1062, 1064, 1397, 1048, 1452] {
            assert!(!is_passing(code) && !is_lost(code) && remedy(code).is_none(), "{code}");
        }
        assert!(!is_lost(1205) && remedy(1142).is_some());
    }
}
