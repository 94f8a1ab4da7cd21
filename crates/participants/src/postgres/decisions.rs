//! Decisions in PostgreSQL: rows that are written once, by the commit of a branch or by another coordinator.
//!
//! The primary key lets the first writer win. A second writer waits for the first one, up to the lock
//! timeout. A decision below the retention limit is not written again: writers hold a shared advisory lock,
//! and the statement that raises the limit holds it exclusively.

use jeton_etx::{AttemptNumber, RequestId, Xid};

use super::{PostgresDriver, error};
use crate::driver::{DecisionSql, ErrorClass};
use crate::identifiers::{hex, markers_below};
use crate::query_error::QueryError;
use crate::settings::Settings;

impl DecisionSql for PostgresDriver {
    /// The session of a branch has the prepared statements.
    fn commit_deciding_sql(_: &Settings, begin: Option<&str>, xid: &Xid, decision: &[u8]) -> String {
        let (session, sequence, attempt) = (uuid(xid.request.session), xid.request.sequence, xid.attempt.0);
        let (begin, decision) = (begin.unwrap_or_default(), hex(decision));
        format!(
            "{begin}; EXECUTE etx_share; \
             EXECUTE etx_decide('{session}', {sequence}, {attempt}, '\\x{decision}'); COMMIT"
        )
    }

    fn write_decision_sql(
        settings: &Settings,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> String {
        let (cluster, key) = (settings.cluster.number, key(settings, request, attempt));
        let (session, decision) = (uuid(request.session), hex(decision));
        let read = Self::read_decision_sql(settings, request, attempt);
        // At this isolation level each statement sees the rows that it waited for.
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({}, 1); \
             INSERT INTO etx_decision SELECT {key}, \
             CASE WHEN below <= '{session}' THEN '\\x{decision}'::bytea END \
             FROM etx_retention WHERE cluster = {cluster} ON CONFLICT DO NOTHING; {read}; COMMIT",
            Xid::FORMAT
        )
    }

    fn read_decision_sql(settings: &Settings, request: RequestId, attempt: AttemptNumber) -> String {
        let (cluster, session) = (settings.cluster.number, uuid(request.session));
        let key = key(settings, request, attempt);
        format!(
            "SELECT encode(decision, 'hex'), below > '{session}' FROM etx_retention LEFT JOIN etx_decision \
             ON (etx_decision.cluster, session, sequence, attempt) = ({key}) WHERE etx_retention.cluster = {cluster}"
        )
    }

    fn raise_retention_sql(settings: &Settings, below: u128) -> String {
        let (cluster, session) = (settings.cluster.number, uuid(below));
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({}, 1); \
             UPDATE etx_retention SET below = '{session}' WHERE cluster = {cluster} AND below < '{session}'; COMMIT",
            Xid::FORMAT
        )
    }

    fn delete_expired_sql(settings: &Settings, below: u128, batch: usize) -> [String; 2] {
        let (cluster, session) = (settings.cluster.number, uuid(below));
        let (from, to) = markers_below(settings.cluster, below);
        [
            ("etx_commit_marker", format!("gid >= '{from}' AND gid < '{to}'")),
            ("etx_decision", format!("cluster = {cluster} AND session < '{session}'")),
        ]
        .map(|(table, condition)| {
            format!(
                "WITH deleted AS (DELETE FROM {table} WHERE ctid IN \
                 (SELECT ctid FROM {table} WHERE {condition} LIMIT {batch}) RETURNING 1) SELECT count(*) FROM deleted"
            )
        })
    }

    fn classify(error: &QueryError) -> ErrorClass {
        match (error.code.as_str(), error.table.as_str()) {
            (error::UNIQUE_VIOLATION, "etx_decision") => ErrorClass::DecisionExists,
            (error::NOT_NULL_VIOLATION, "etx_decision") => ErrorClass::Forgotten,
            _ => ErrorClass::Other,
        }
    }
}

fn key(settings: &Settings, request: RequestId, attempt: AttemptNumber) -> String {
    let (cluster, session) = (settings.cluster.number, uuid(request.session));
    format!("{cluster}, '{session}'::uuid, {}, {}", request.sequence, attempt.0)
}

/// A session as a UUID, which PostgreSQL orders as it orders the numbers.
pub(super) fn uuid(session: u128) -> String {
    let digits = format!("{session:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn session_is_formatted_as_uuid() {
        let session = 0x0192_8f00_dead_7000_8000_0000_0000_00ff;
        assert_eq!(super::uuid(session), "01928f00-dead-7000-8000-0000000000ff");
    }
}
