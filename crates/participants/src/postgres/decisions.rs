//! Decisions that are kept in PostgreSQL: rows that are written once, together with what was decided about or by others who end it.
//!
//! The key of the table makes the first one win. A row that another is just writing is waited for, within the limit for locks. What is
//! forgotten is not written again: writers share a lock that whoever forgets has for himself.

use jeton_etx::{AttemptNumber, RequestId, ResourceError, Xid};

use super::Inner;
use crate::identifiers::{hex, marks_below, unhex};
use crate::query_error::{QueryError, first};

/// How many rows are deleted at a time.
const BATCH: usize = 1_000;

impl Inner {
    /// Statements that write a decision on the connection of a branch, which has them prepared.
    pub fn deciding(request: RequestId, attempt: AttemptNumber, decision: &[u8]) -> String {
        let (session, sequence, decision) = (uuid(request.session), request.sequence, hex(decision));
        format!(
            "EXECUTE etx_share; EXECUTE etx_decide('{session}', {sequence}, {}, '\\x{decision}')",
            attempt.0
        )
    }

    /// The same on any connection, unless one stands. What is forgotten violates that a decision is never null.
    fn writing(&self, request: RequestId, attempt: AttemptNumber, decision: &[u8]) -> String {
        let (cluster, key) = (self.settings.cluster.number, self.key(request, attempt));
        let session = uuid(request.session);
        let decision = hex(decision);
        format!(
            "SELECT pg_advisory_xact_lock_shared({}, 1); \
             INSERT INTO etx_decision SELECT {key}, \
             CASE WHEN below <= '{session}' THEN '\\x{decision}'::bytea END \
             FROM etx_forgotten WHERE cluster = {cluster} ON CONFLICT DO NOTHING",
            Xid::FORMAT
        )
    }

    /// Whether an error says that another decision stands.
    pub fn stands_already(trouble: &QueryError) -> bool {
        trouble.code == "23505" && trouble.table == "etx_decision"
    }

    /// Whether an error says that the session is forgotten.
    pub fn is_forgotten(trouble: &QueryError) -> bool {
        trouble.code == "23502" && trouble.table == "etx_decision"
    }

    fn key(&self, request: RequestId, attempt: AttemptNumber) -> String {
        let (cluster, session) = (self.settings.cluster.number, uuid(request.session));
        format!("{cluster}, '{session}'::uuid, {}, {}", request.sequence, attempt.0)
    }

    fn reading(&self, request: RequestId, attempt: AttemptNumber) -> String {
        let (cluster, session) = (self.settings.cluster.number, uuid(request.session));
        let key = self.key(request, attempt);
        format!(
            "SELECT encode(decision, 'hex'), below > '{session}' FROM etx_forgotten LEFT JOIN etx_decision \
             ON (etx_decision.cluster, session, sequence, attempt) = ({key}) WHERE etx_forgotten.cluster = {cluster}"
        )
    }

    pub async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        let write = self.writing(request, attempt, decision);
        let read = self.reading(request, attempt);
        // Each statement sees what was committed before it, also what it waited for.
        let all = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {write}; {read}; COMMIT");
        match self.ask(&all).await {
            // The first row is that of the lock.
            Ok(rows) => {
                let stands = self.decision(rows.last())?;
                stands.ok_or_else(|| self.settings.passing("a decision that was written is not there"))
            }
            Err(trouble) if Self::is_forgotten(&trouble) => Err(self.settings.forgotten()),
            Err(trouble) => Err(trouble.into()),
        }
    }

    pub async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        let rows = self.ask(&self.reading(request, attempt)).await?;
        self.decision(rows.first())
    }

    fn decision(&self, row: Option<&Vec<Option<String>>>) -> Result<Option<Vec<u8>>, ResourceError> {
        match row.map(Vec::as_slice) {
            Some([Some(text), _]) => {
                let unreadable = || self.settings.passing("a decision that cannot be read");
                unhex(text).map(Some).ok_or_else(unreadable)
            }
            Some([None, Some(flag)]) if flag == "t" => Err(self.settings.forgotten()),
            _ => Ok(None),
        }
    }

    pub async fn forget(&self, below: u128) -> Result<(), ResourceError> {
        let (cluster, session) = (self.settings.cluster.number, uuid(below));
        self.ask(&format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({}, 1); \
             UPDATE etx_forgotten SET below = '{session}' WHERE cluster = {cluster} AND below < '{session}'; COMMIT",
            Xid::FORMAT
        ))
        .await?;
        let (from, to) = marks_below(self.settings.cluster, below);
        for rest in [
            format!("etx_mark WHERE gid >= '{from}' AND gid < '{to}'"),
            format!("etx_decision WHERE cluster = {cluster} AND session < '{session}'"),
        ] {
            let table = rest.split(' ').next().unwrap_or_default();
            let delete = format!(
                "WITH gone AS (DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {rest} LIMIT {BATCH}) \
                 RETURNING 1) SELECT count(*) FROM gone"
            );
            while first(&self.ask(&delete).await?) == Some(BATCH.to_string().as_str()) {}
        }
        Ok(())
    }
}

/// A session as PostgreSQL has it: in the order of the numbers.
fn uuid(session: u128) -> String {
    let digits = format!("{session:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_session_is_spelled_as_a_uuid() {
        let session = 0x0192_8f00_dead_7000_8000_0000_0000_00ff;
        assert_eq!(super::uuid(session), "01928f00-dead-7000-8000-0000000000ff");
    }
}
