//! An executor that hangs is ended by others.

use anyhow::{Result, ensure};
use jeton_etx::{AttemptId, AttemptNumber, DecisionLocation, Outcome, Vote};

use super::branches::prepared_deposit;
use super::stage::{NUMBER, Stage, attempt, attempt_at_home};

pub async fn a_hung_owner_of_locks_is_ended(stage: &mut Stage) -> Result<()> {
    for attempt in [attempt(), attempt_at_home()] {
        let account = stage.account().await?;
        let mut branch = stage.own.begin(attempt).await?;
        stage.deposit(&mut branch, account).await?;
        stage.proxy.hold();
        stage.other.fence(attempt.executor).await?;
        // At once, without a wait for a lock.
        let mut next = stage.other.begin(super::stage::attempt()).await?;
        stage.deposit(&mut next, account).await?;
        ensure!(matches!(next.vote().await, Vote::Yes));
        next.decide(Outcome::Commit).await?;
        stage.proxy.release();
        match attempt.home {
            DecisionLocation::Resource(NUMBER) => ensure!(branch.commit_deciding(b"late").await.is_err()),
            _ => {
                let vote = branch.vote().await;
                ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?} after the fence");
                branch.decide(Outcome::Abort).await?;
            }
        }
        stage.expect_balance(account, 1).await?;
    }
    Ok(())
}

pub async fn a_hung_owner_of_a_prepared_branch_is_ended(stage: &mut Stage) -> Result<()> {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let account = stage.account().await?;
        let branch = prepared_deposit(stage, account).await?;
        let name = branch.name();
        stage.proxy.hold();
        stage.other.fence(name.executor).await?;
        ensure!(stage.is_prepared(&name).await?, "a fence must not take back a vote");
        stage.other.decide(&name, outcome).await?;
        stage.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
        stage.proxy.release();
        branch.decide(outcome).await?;
        stage.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
    }
    Ok(())
}

/// To be taken for dead costs a try, and no more.
pub async fn who_was_fenced_may_begin_again(stage: &mut Stage) -> Result<()> {
    let account = stage.account().await?;
    let attempt = attempt();
    let mut branch = stage.own.begin(attempt).await?;
    stage.deposit(&mut branch, account).await?;
    stage.other.fence(attempt.executor).await?;
    // Twice is no harm.
    stage.other.fence(attempt.executor).await?;
    let vote = branch.vote().await;
    branch.decide(Outcome::Abort).await?;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?} after the fence");
    let mut again = stage.own.begin(AttemptId { number: AttemptNumber(2), ..attempt }).await?;
    stage.deposit(&mut again, account).await?;
    let vote = again.vote().await;
    ensure!(matches!(vote, Vote::Yes), "it votes {vote:?} when it begins again");
    again.decide(Outcome::Commit).await?;
    stage.expect_balance(account, 1).await
}
