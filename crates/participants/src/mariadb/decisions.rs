//! Decisions in MariaDB: rows that are written once, by the commit of a branch or by another coordinator.
//!
//! The primary key lets the first writer win. A second writer waits for the first one, up to the lock
//! timeout. A decision below the retention limit is not written again: writers lock the row of the limit in
//! share mode, and the statement that raises the limit locks it exclusively.

use jeton_etx::{AttemptNumber, RequestId, Xid};

use super::{MariaDbDriver, compound, error};
use crate::driver::{DecisionSql, ErrorClass};
use crate::identifiers::{hex, markers_below};
use crate::query_error::QueryError;
use crate::settings::Settings;

impl DecisionSql for MariaDbDriver {
    fn commit_deciding_sql(settings: &Settings, begin: Option<&str>, xid: &Xid, decision: &[u8]) -> String {
        let write = insert_sql(settings, xid.request, xid.attempt, decision);
        let begin = begin.map(|begin| format!("{begin}; ")).unwrap_or_default();
        begin + &compound(&format!("{write}; COMMIT"))
    }

    fn write_decision_sql(
        settings: &Settings,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> String {
        let insert = insert_sql(settings, request, attempt, decision);
        let read = Self::read_decision_sql(settings, request, attempt);
        format!("{insert} ON DUPLICATE KEY UPDATE attempt = attempt; {read}")
    }

    fn read_decision_sql(settings: &Settings, request: RequestId, attempt: AttemptNumber) -> String {
        let RequestId { session, sequence } = request;
        let cluster = settings.cluster.number;
        format!(
            "SELECT HEX(decision), below > x'{session:032x}' FROM etx_retention LEFT JOIN etx_decision \
             ON etx_decision.cluster = etx_retention.cluster AND session = x'{session:032x}' \
             AND sequence = {sequence} AND attempt = {} WHERE etx_retention.cluster = {cluster}",
            attempt.0
        )
    }

    fn raise_retention_sql(settings: &Settings, below: u128) -> String {
        let cluster = settings.cluster.number;
        format!(
            "UPDATE etx_retention SET below = x'{below:032x}' WHERE cluster = {cluster} AND below < x'{below:032x}'"
        )
    }

    fn delete_expired_sql(settings: &Settings, below: u128, batch: usize) -> [String; 2] {
        let cluster = settings.cluster.number;
        let (from, to) = markers_below(settings.cluster, below);
        [
            format!("etx_commit_marker WHERE gid >= '{from}' AND gid < '{to}' ORDER BY gid"),
            format!(
                "etx_decision WHERE cluster = {cluster} AND session < x'{below:032x}' \
                 ORDER BY cluster, session, sequence, attempt"
            ),
        ]
        .map(|rows| format!("DELETE FROM {rows} LIMIT {batch}; SELECT ROW_COUNT()"))
    }

    fn classify(error: &QueryError) -> ErrorClass {
        match error.code.as_str() {
            error::DUPLICATE => ErrorClass::DecisionExists,
            error::NULL => ErrorClass::Forgotten,
            _ => ErrorClass::Other,
        }
    }
}

/// Writes a decision. A decision below the retention limit violates the not-null constraint.
fn insert_sql(settings: &Settings, request: RequestId, attempt: AttemptNumber, decision: &[u8]) -> String {
    let (cluster, decision) = (settings.cluster.number, hex(decision));
    let RequestId { session, sequence } = request;
    format!(
        "INSERT INTO etx_decision VALUES ({cluster}, x'{session:032x}', {sequence}, {}, \
         IF((SELECT below FROM etx_retention WHERE cluster = {cluster} LOCK IN SHARE MODE) <= x'{session:032x}', \
         x'{decision}', NULL))",
        attempt.0
    )
}
