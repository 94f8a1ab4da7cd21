//! What PostgreSQL's errors mean to us.

use tokio_postgres::Error;
use tokio_postgres::error::Severity;

use crate::query_error::QueryError;
use crate::settings::Settings;

pub fn trouble(settings: &Settings, error: &Error) -> QueryError {
    let Some(error) = error.as_db_error() else {
        // Lost, or not understood: either way it is not known what became of the question.
        return settings.passing(with_cause(error)).into();
    };
    let code = error.code().code();
    let why = match error.detail() {
        Some(detail) => format!("{} ({detail})", error.message()),
        None => error.message().to_owned(),
    };
    // The severity in words is in the language of the database.
    let is_plain = error.parsed_severity() == Some(Severity::Error);
    let failure = if is_passing(code) || is_stale_plan(code, error.routine()) {
        settings.passing(format_args!("{why} [{code}]"))
    } else if let Some(remedy) = remedy(code, &why) {
        settings.setup(format_args!("{why} [{code}]"), remedy)
    } else {
        settings.statement(code, why)
    };
    let table = error.table().unwrap_or_default().to_owned();
    QueryError { code: code.to_owned(), is_lost: !is_plain, failure, table }
}

/// Errors say little without their cause.
fn with_cause(error: &Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// May be different the next time.
fn is_passing(code: &str) -> bool {
    // Connection; resources such as connections and memory; operator's doing, such as a restart; system, such as a disk.
    let classes = ["08", "53", "58"];
    // Serialization, deadlock, unknown completion; a lock not had, one in the way of an object; a time that ran out, a restart; idle too long.
    let codes =
        ["40001", "40P01", "40003", "55P03", "55006", "57014", "57P01", "57P02", "57P03", "57P05", "25P03"];
    classes.iter().any(|class| code.starts_with(class)) || codes.contains(&code)
}

/// The statement was prepared before a table changed; prepared anew it works.
fn is_stale_plan(code: &str, routine: Option<&str>) -> bool {
    code == "0A000" && routine == Some("RevalidateCachedQuery")
}

/// What to do about an error that is in how the database is set up.
fn remedy(code: &str, why: &str) -> Option<&'static str> {
    match code {
        "55000" if why.contains("prepared transactions are disabled") => {
            Some("set max_prepared_transactions in postgresql.conf, to 200 say, and restart PostgreSQL")
        }
        "42501" => Some("grant the role what it needs; all servers must use the same role"),
        "28000" | "28P01" => Some("correct role and password, or pg_hba.conf"),
        "3D000" => Some("create the database, or correct its name"),
        "25006" => Some("this is a standby or read-only; give the address of the primary"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        for code in ["40001", "40P01", "55P03", "57P01", "57P03", "08006", "53300", "57014"] {
            assert!(is_passing(code), "{code}");
        }
        for code in ["23505", "42601", "22P02", "42501", "55000", "0A000"] {
            assert!(!is_passing(code), "{code}");
        }
        assert!(is_stale_plan("0A000", Some("RevalidateCachedQuery")));
        assert!(!is_stale_plan("0A000", Some("PrepareTransaction")) && !is_stale_plan("0A000", None));
        assert!(remedy("55000", "prepared transactions are disabled").is_some());
        assert!(remedy("55000", "prepared transaction is busy").is_none());
    }
}
