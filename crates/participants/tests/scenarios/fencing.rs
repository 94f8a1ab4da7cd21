//! Fencing of a coordinator that hangs.

use anyhow::{Result, ensure};
use jeton_etx::{AttemptId, AttemptNumber, DecisionLocation, Outcome, Vote};

use super::fixture::{Fixture, NUMBER, attempt, attempt_at_home};
use crate::expect_vote;

pub async fn fence_releases_locks_of_open_branch(fixture: &mut Fixture) -> Result<()> {
    for attempt in [attempt(), attempt_at_home()] {
        let (account, mut branch) = fixture.open_deposit(attempt).await?;
        fixture.proxy.hold();
        fixture.other.fence(attempt.coordinator).await?;
        // At once, without waiting for a lock.
        let mut next = fixture.other.begin(super::fixture::attempt()).await?;
        fixture.deposit(&mut next, account).await?;
        expect_vote!(next, Vote::Yes);
        next.decide(Outcome::Commit).await?;
        fixture.proxy.release();
        match attempt.decision_location {
            DecisionLocation::Resource(NUMBER) => ensure!(branch.commit_deciding(b"late").await.is_err()),
            _ => {
                expect_vote!(branch, Vote::No(_));
                branch.decide(Outcome::Abort).await?;
            }
        }
        fixture.expect_balance(account, 1).await?;
    }
    Ok(())
}

pub async fn fence_ends_session_of_prepared_branch(fixture: &mut Fixture) -> Result<()> {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let (account, branch) = fixture.prepared_deposit().await?;
        let name = branch.name();
        fixture.proxy.hold();
        fixture.other.fence(name.coordinator).await?;
        ensure!(fixture.is_prepared(&name).await?, "a fence must not take back a vote");
        fixture.other.decide(&name, outcome).await?;
        fixture.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
        fixture.proxy.release();
        branch.decide(outcome).await?;
        fixture.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
    }
    Ok(())
}

/// A wrong suspicion costs one attempt.
pub async fn fenced_server_may_begin_again(fixture: &mut Fixture) -> Result<()> {
    let attempt = attempt();
    let (account, mut branch) = fixture.open_deposit(attempt).await?;
    fixture.other.fence(attempt.coordinator).await?;
    // Fencing is idempotent.
    fixture.other.fence(attempt.coordinator).await?;
    let vote = branch.vote().await;
    branch.decide(Outcome::Abort).await?;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?} after the fence");
    let mut again = fixture.own.begin(AttemptId { number: AttemptNumber(2), ..attempt }).await?;
    fixture.deposit(&mut again, account).await?;
    expect_vote!(again, Vote::Yes);
    again.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}
