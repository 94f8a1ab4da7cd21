//! Deletion of decisions: those that the client has acknowledged, and those of sessions older than the
//! window.
//!
//! Invariant: a commit is not forgotten while one of its branches may be prepared, because a forgotten
//! decision counts as an abort.
//!
//! - A client acknowledges answers, which it gets after all branches are committed. The client is not
//!   trusted: only requests that this server answered itself are forgotten early
//!   ([`AnsweredWatermarks`](crate::answered_watermarks::AnsweredWatermarks)).
//! - Sessions are forgotten when they are older than the window plus a grace period, and only after every
//!   database has reported that it has no prepared branch of them. Later work of such a session is not
//!   committed: a commit is proposed only after its branches are prepared, and not for a session older than
//!   the window plus half of the grace period ([`Coordinator::nears_retention_limit`]). So every committed
//!   branch of an expired session was prepared when the databases were asked. Half of the grace period allows
//!   for clock differences.

use std::sync::Arc;
use std::time::Duration;

use jeton_register::{LogId, LogKind, Registers, Slot};

use crate::coordinator::Coordinator;
use crate::decision_log::last_slot;
use crate::{CoordinatorId, PreparedBranch, RequestId};

/// The bits of a session below its date.
const UNDATED_BITS: u32 = 80;

/// The date of a session, in milliseconds since 1970. A session is dated as a UUIDv7 is.
pub(crate) fn date_of(session: u128) -> u64 {
    (session >> UNDATED_BITS) as u64
}

/// The smallest session of a date.
fn first_of(millis: u64) -> u128 {
    u128::from(millis) << UNDATED_BITS
}

impl<R: Registers> Coordinator<R> {
    /// Forgets the decisions of all requests of a session up to `through`: the client has their answers and
    /// will not retry them. Only decisions of requests that this server answered, and that are in the
    /// registers; decisions in a database stay until the session expires.
    pub async fn acknowledge(&self, session: u128, through: u32) -> Result<(), String> {
        let Some(through) = self.answered().up_to(session, through) else { return Ok(()) };
        let trimmed =
            self.decisions.registers().trim(LogId::transaction(session), Slot(last_slot(through))).await;
        fault!("acknowledged");
        trimmed.map_err(|why| why.to_string())
    }

    /// Forgets expired sessions periodically, until shutdown.
    pub async fn run_retention(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(why) = self.retire().await {
                tracing::info!(%why, "expired sessions are not forgotten yet");
            }
        }
    }

    /// Forgets sessions older than the window, unless one of their branches may be prepared.
    pub async fn retire(&self) -> Result<(), String> {
        let below = first_of(self.oldest(self.options.window.saturating_add(self.options.grace())));
        for resource in self.resources.iter() {
            let prepared = resource.prepared().await.map_err(|why| why.to_string())?;
            let is_old = |listed: &&PreparedBranch| {
                listed.name.request.session < below && listed.name.coordinator != CoordinatorId::TRIAL
            };
            if let Some(left) = prepared.iter().find(is_old) {
                return Err(format!(
                    "{} has the branch {} of an expired session",
                    resource.name(),
                    left.name.gid()
                ));
            }
        }
        if self.has_in_flight_below(below) {
            return Err("a request of an expired session is in flight".into());
        }
        fault!("retiring");
        // The registers first: from then on nothing is decided for these sessions.
        let retired = self.decisions.registers().retire(LogKind::Transaction, below).await;
        fault!("retired");
        retired.map_err(|why| why.to_string())?;
        for resource in self.resources.iter() {
            resource.forget(below).await.map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Whether a session is too old for a commit: it could be forgotten before the commit is carried out.
    pub(crate) fn nears_retention_limit(&self, request: RequestId) -> bool {
        let limit = self.options.window.saturating_add(self.options.grace() / 2);
        date_of(request.session) < self.oldest(limit)
    }

    /// The date that is `age` ago.
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
