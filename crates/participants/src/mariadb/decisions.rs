//! Decisions that are kept in MariaDB: rows that are written once, together with what was decided about or by others who end it.
//!
//! The key of the table makes the first one win. A row that another is just writing is waited for, within the limit for locks. What is
//! forgotten is not written again: writers share the row that says what is, and whoever forgets has it for himself.

use jeton_etx::{AttemptNumber, RequestId, ResourceError};

use super::{Inner, error};
use crate::identifiers::{hex, marks_below, unhex};
use crate::query_error::first;

/// How many rows are deleted at a time.
const BATCH: usize = 1_000;

impl Inner {
    /// A statement that writes a decision. What is forgotten violates that a decision is never null.
    pub fn writing(&self, request: RequestId, attempt: AttemptNumber, decision: &[u8]) -> String {
        let (cluster, decision) = (self.settings.cluster.number, hex(decision));
        let RequestId { session, sequence } = request;
        format!(
            "INSERT INTO etx_decision VALUES ({cluster}, x'{session:032x}', {sequence}, {}, \
             IF((SELECT below FROM etx_forgotten WHERE cluster = {cluster} LOCK IN SHARE MODE) <= x'{session:032x}', \
             x'{decision}', NULL))",
            attempt.0
        )
    }

    fn reading(&self, request: RequestId, attempt: AttemptNumber) -> String {
        let RequestId { session, sequence } = request;
        let cluster = self.settings.cluster.number;
        format!(
            "SELECT HEX(decision), below > x'{session:032x}' FROM etx_forgotten LEFT JOIN etx_decision \
             ON etx_decision.cluster = etx_forgotten.cluster AND session = x'{session:032x}' \
             AND sequence = {sequence} AND attempt = {} WHERE etx_forgotten.cluster = {cluster}",
            attempt.0
        )
    }

    pub async fn write_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
        decision: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        let write = self.writing(request, attempt, decision);
        match self.ask(&format!("{write} ON DUPLICATE KEY UPDATE attempt = attempt")).await {
            Ok(_) => {}
            Err(trouble) if trouble.code == error::NULL => return Err(self.settings.forgotten()),
            Err(trouble) => return Err(trouble.into()),
        }
        let stands = self.read_decision(request, attempt).await?;
        stands.ok_or_else(|| self.settings.passing("a decision that was written is not there"))
    }

    pub async fn read_decision(
        &self,
        request: RequestId,
        attempt: AttemptNumber,
    ) -> Result<Option<Vec<u8>>, ResourceError> {
        let rows = self.ask(&self.reading(request, attempt)).await?;
        match rows.first().map(Vec::as_slice) {
            Some([Some(text), _]) => {
                let unreadable = || self.settings.passing("a decision that cannot be read");
                unhex(text).map(Some).ok_or_else(unreadable)
            }
            Some([None, Some(flag)]) if flag == "1" => Err(self.settings.forgotten()),
            _ => Ok(None),
        }
    }

    pub async fn forget(&self, below: u128) -> Result<(), ResourceError> {
        let cluster = self.settings.cluster.number;
        self.ask(&format!(
            "UPDATE etx_forgotten SET below = x'{below:032x}' WHERE cluster = {cluster} AND below < x'{below:032x}'"
        ))
        .await?;
        let (from, to) = marks_below(self.settings.cluster, below);
        for rest in [
            format!("etx_mark WHERE gid >= '{from}' AND gid < '{to}' ORDER BY gid"),
            format!(
                "etx_decision WHERE cluster = {cluster} AND session < x'{below:032x}' \
                 ORDER BY cluster, session, sequence, attempt"
            ),
        ] {
            let delete = format!("DELETE FROM {rest} LIMIT {BATCH}; SELECT ROW_COUNT()");
            while first(&self.ask(&delete).await?) == Some(BATCH.to_string().as_str()) {}
        }
        Ok(())
    }
}
