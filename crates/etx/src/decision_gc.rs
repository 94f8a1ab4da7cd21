//! How decisions are forgotten: those that the client has acknowledged, and those of sessions older than the window.
//!
//! What must hold: a commit is not forgotten while a branch of it may be prepared, because what is forgotten counts as aborted.
//!
//! - A client acknowledges what it was answered, and it is answered when all branches are committed. It is not believed: only what this server answered itself is forgotten
//!   early ([`AnsweredWatermarks`](crate::answered_watermarks::Answered)).
//! - Sessions are forgotten when they are older than the window and a time of grace, and only after every database has said that it has no branch of one. What such a session
//!   begins later is not committed: a commit is proposed only when its branches are prepared, and not for a session that is older than the window and half of the grace
//!   ([`Coordinator::nears_retention_limit`]). So whatever is committed of an old session was prepared when the databases were asked, by a wide margin: half of the grace
//!   is for clocks that differ.

use std::sync::Arc;
use std::time::Duration;

use jeton_register::{Log, Registers, Slot, Space};

use crate::coordinator::Coordinator;
use crate::decision_log::last_slot;
use crate::{CoordinatorId, PreparedBranch, RequestId};

/// The bits of a session below its date.
const UNDATED_BITS: u32 = 80;

/// When a session was begun, in milliseconds since 1970. A session is dated as a UUIDv7 is.
pub(crate) fn date_of(session: u128) -> u64 {
    (session >> UNDATED_BITS) as u64
}

/// The least session of a moment.
fn first_of(millis: u64) -> u128 {
    u128::from(millis) << UNDATED_BITS
}

impl<R: Registers> Coordinator<R> {
    /// Forgets the decisions about all requests of a session up to this one: the client has their answers, and will not ask for them again. Only of those that this server
    /// answered, and that are in the registers: where a database keeps them, they stay until the session is old.
    pub async fn acknowledge(&self, session: u128, through: u32) -> Result<(), String> {
        let Some(through) = self.answered().up_to(session, through) else { return Ok(()) };
        let trimmed =
            self.decisions.registers().trim(Log::transaction(session), Slot(last_slot(through))).await;
        fault!("acknowledged");
        trimmed.map_err(|why| why.to_string())
    }

    /// Forgets sessions that are older than the window, from time to time, for ever.
    pub async fn retire_for_ever(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(why) = self.retire().await {
                tracing::info!(%why, "old sessions are not forgotten yet");
            }
        }
    }

    /// Forgets sessions that are older than the window, unless something of one may still be prepared.
    pub async fn retire(&self) -> Result<(), String> {
        let below = first_of(self.oldest(self.options.window.saturating_add(self.options.grace())));
        for resource in self.resources.iter() {
            let prepared = resource.prepared().await.map_err(|why| why.to_string())?;
            let is_old = |standing: &&PreparedBranch| {
                standing.name.request.session < below && standing.name.executor != CoordinatorId::TRIAL
            };
            if let Some(left) = prepared.iter().find(is_old) {
                return Err(format!(
                    "{} has the branch {} of an old session",
                    resource.name(),
                    left.name.gid()
                ));
            }
        }
        if self.is_at_work_below(below) {
            return Err("a request of an old session is under way".into());
        }
        fault!("retiring");
        // The registers first: from then on nothing is decided about them any more.
        let retired = self.decisions.registers().retire(Space::Transaction, below).await;
        fault!("retired");
        retired.map_err(|why| why.to_string())?;
        for resource in self.resources.iter() {
            resource.forget(below).await.map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Whether a session is so old that nothing of it may be committed any more: it may be forgotten before the commit is carried out.
    pub(crate) fn nears_retention_limit(&self, request: RequestId) -> bool {
        let limit = self.options.window.saturating_add(self.options.grace() / 2);
        date_of(request.session) < self.oldest(limit)
    }

    /// The date of what is so old now.
    fn oldest(&self, age: Duration) -> u64 {
        (self.options.now)().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_dated_as_uuids_of_version_7() {
        // The example of RFC 9562, appendix A.6: 2022-02-22 19:22:22 UTC.
        let session = 0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F;
        assert_eq!(date_of(session), 1_645_557_742_000);
        assert!(first_of(date_of(session)) <= session && session < first_of(date_of(session) + 1));
    }
}
