//! Classification of MariaDB's errors.

use jeton_client::tls::is_untrusted;
use mysql_async::{DriverError, Error};

use crate::query_error::QueryError;
use crate::settings::Settings;

/// There is no such branch, or its session still exists, or another session is ending it.
pub const UNKNOWN_BRANCH: &str = "1397";
/// The branch is gone: it had changed nothing, and its session has ended.
pub const ROLLED_BACK: &str = "1402";
/// Another session has the lock.
pub const LOCKED: &str = "1205";
/// The key exists already.
pub const DUPLICATE: &str = "1062";
/// Violation of a not-null constraint.
pub const NULL: &str = "1048";

pub fn query_error(settings: &Settings, error: &Error) -> QueryError {
    let error = match error {
        Error::Server(error) => error,
        Error::Driver(
            error @ (DriverError::StmtParamsMismatch { .. }
            | DriverError::MixedParams
            | DriverError::Params(_)
            | DriverError::StmtParamsNumberExceedsLimit { .. }),
        ) => return QueryError { is_lost: false, ..settings.statement("parameters", error).into() },
        error @ Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            let remedy = "give the server a certificate (ssl_cert, ssl_key), or remove require_ssl";
            return settings.setup(error, remedy).into();
        }
        error if is_untrusted(error) => {
            let remedy = "check ssl_ca in the URL, and the certificate of the server";
            return settings.setup(error, remedy).into();
        }
        Error::Url(error) => return settings.setup(error, "correct the URL").into(),
        // The connection is lost, or the response was not understood: the result of the statement is unknown.
        error => return settings.transient(error).into(),
    };
    let why = format_args!("{} [{}]", error.message, error.code).to_string();
    let kind = if is_transient(error.code) {
        settings.transient(why)
    } else if let Some(remedy) = remedy(error.code) {
        settings.setup(why, remedy)
    } else {
        settings.statement(error.code.to_string(), &error.message)
    };
    QueryError {
        code: error.code.to_string(),
        is_lost: is_lost(error.code),
        error: kind,
        table: String::new(),
    }
}

/// Whether the error ends the session.
fn is_lost(code: u16) -> bool {
    // Shutdown, kill, and packet errors.
    matches!(code, 1053 | 1927 | 1317 | 1152..=1161 | 2006 | 2013)
}

/// Whether a retry may succeed.
fn is_transient(code: u16) -> bool {
    // Full disk, memory; connection limits; locks, deadlocks, also those of XA; a row that changed; timeouts.
    let codes =
        [1020, 1021, 1037, 1038, 1041, 1040, 1203, 1226, 1205, 1213, 1402, 1613, 1614, 1969, 1129, 4031];
    is_lost(code) || codes.contains(&code)
}

/// How to fix an error in the setup of the database.
fn remedy(code: u16) -> Option<&'static str> {
    match code {
        1044 | 1142 | 1143 | 1227 => {
            Some("grant the account the missing privilege; all servers must use the same account")
        }
        1045 | 1698 => Some("correct the account, the password or require_ssl"),
        1049 | 1046 => Some("create the database, or name it in the URL"),
        1290 | 1836 => Some("it is read-only; use the address of the primary"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_classified() {
        for code in [1205, 1213, 1040, 2006, 2013, 1053, 1927, 1969] {
            assert!(is_transient(code), "{code}");
        }
        for code in [1062, 1064, 1397, 1048, 1452] {
            assert!(!is_transient(code) && !is_lost(code) && remedy(code).is_none(), "{code}");
        }
        assert!(!is_lost(1205) && remedy(1142).is_some());
    }
}
