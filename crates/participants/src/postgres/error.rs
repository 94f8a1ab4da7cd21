//! Classification of PostgreSQL's errors.

use jeton_register_postgres::is_tls_refusal;
use tokio_postgres::Error;
use tokio_postgres::error::Severity;

use crate::query_error::QueryError;
use crate::settings::Settings;

pub const UNIQUE_VIOLATION: &str = "23505";
pub const NOT_NULL_VIOLATION: &str = "23502";
pub const DIVISION_BY_ZERO: &str = "22012";
/// There is no such prepared transaction.
pub const UNDEFINED_OBJECT: &str = "42704";
/// Another session is ending the prepared transaction.
pub const NOT_IN_PREREQUISITE_STATE: &str = "55000";

pub fn query_error(settings: &Settings, error: &Error) -> QueryError {
    let Some(error) = error.as_db_error() else {
        if is_tls_refusal(error) {
            let remedy = "check sslmode and sslrootcert in the URL, and the certificate of the server";
            return settings.setup(with_cause(error), remedy).into();
        }
        // The connection is lost, or the response was not understood: the result of the statement is unknown.
        return settings.transient(with_cause(error)).into();
    };
    let code = error.code().code();
    let why = match error.detail() {
        Some(detail) => format!("{} ({detail})", error.message()),
        None => error.message().to_owned(),
    };
    // The text of the severity depends on the language of the database.
    let is_statement_error = error.parsed_severity() == Some(Severity::Error);
    let error_kind = if is_transient(code) || is_stale_plan(code, error.routine()) {
        settings.transient(format_args!("{why} [{code}]"))
    } else if let Some(remedy) = remedy(code, &why) {
        settings.setup(format_args!("{why} [{code}]"), remedy)
    } else {
        settings.statement(code, why)
    };
    let table = error.table().unwrap_or_default().to_owned();
    QueryError { code: code.to_owned(), is_lost: !is_statement_error, error: error_kind, table }
}

/// The message with its cause, which has the details.
fn with_cause(error: &Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Whether a retry may succeed.
fn is_transient(code: &str) -> bool {
    // Connection; resources such as connections and memory; system errors such as a full disk.
    let classes = ["08", "53", "58"];
    // Serialization failure, deadlock, unknown completion; lock not available, object in use; statement
    // timeout, shutdown and restart; idle timeouts.
    let codes =
        ["40001", "40P01", "40003", "55P03", "55006", "57014", "57P01", "57P02", "57P03", "57P05", "25P03"];
    classes.iter().any(|class| code.starts_with(class)) || codes.contains(&code)
}

/// The statement was prepared before a table changed. It works when it is prepared again.
fn is_stale_plan(code: &str, routine: Option<&str>) -> bool {
    code == "0A000" && routine == Some("RevalidateCachedQuery")
}

/// How to fix an error in the setup of the database.
fn remedy(code: &str, why: &str) -> Option<&'static str> {
    match code {
        "55000" if why.contains("prepared transactions are disabled") => Some(
            "set max_prepared_transactions in postgresql.conf, for example to 200, and restart PostgreSQL",
        ),
        "42501" => Some("grant the role the missing privilege; all servers must use the same role"),
        "28000" | "28P01" => Some("correct the role, the password, sslmode or pg_hba.conf"),
        "3D000" => Some("create the database, or correct its name"),
        "25006" => Some("this is a standby or read-only; use the address of the primary"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_classified() {
        for code in ["40001", "40P01", "55P03", "57P01", "57P03", "08006", "53300", "57014"] {
            assert!(is_transient(code), "{code}");
        }
        for code in ["23505", "42601", "22P02", "42501", "55000", "0A000"] {
            assert!(!is_transient(code), "{code}");
        }
        assert!(is_stale_plan("0A000", Some("RevalidateCachedQuery")));
        assert!(!is_stale_plan("0A000", Some("PrepareTransaction")) && !is_stale_plan("0A000", None));
        assert!(remedy("55000", "prepared transactions are disabled").is_some());
        assert!(remedy("55000", "prepared transaction is busy").is_none());
    }
}
