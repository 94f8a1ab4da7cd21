//! Connections break and databases die.

use anyhow::{Result, ensure};
use jeton_etx::{Outcome, Vote};

use super::branches::prepared_deposit;
use super::stage::{Stage, attempt};
use crate::until;

pub async fn a_branch_outlives_a_crash_of_the_database(stage: &mut Stage) -> Result<()> {
    let [one, other] = [stage.account().await?, stage.account().await?];
    let first = prepared_deposit(stage, one).await?;
    let second = prepared_deposit(stage, other).await?;
    stage.server.kill();
    stage.server.restart()?;
    stage.expect_balance(one, 0).await?;
    stage.other.decide(&first.name(), Outcome::Commit).await?;
    // On a connection that is dead.
    second.decide(Outcome::Commit).await?;
    stage.expect_balance(one, 1).await?;
    stage.expect_balance(other, 1).await
}

pub async fn dead_idle_connections_do_not_matter(stage: &mut Stage) -> Result<()> {
    let account = stage.account().await?;
    prepared_deposit(stage, account).await?.decide(Outcome::Commit).await?;
    stage.other.prepared().await?;
    stage.server.kill();
    stage.server.restart()?;
    prepared_deposit(stage, account).await?.decide(Outcome::Commit).await?;
    stage.expect_balance(account, 2).await
}

pub async fn a_connection_lost_before_the_vote_loses_the_work(stage: &mut Stage) -> Result<()> {
    let account = stage.account().await?;
    let mut branch = stage.own.begin(attempt()).await?;
    stage.deposit(&mut branch, account).await?;
    stage.proxy.cut();
    let vote = branch.vote().await;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?}");
    branch.decide(Outcome::Abort).await?;
    // Its locks are gone.
    until!(stage.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await.is_ok());
    stage.expect_balance(account, 5).await
}

pub async fn a_connection_lost_after_the_vote_loses_nothing(stage: &mut Stage) -> Result<()> {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let account = stage.account().await?;
        let branch = prepared_deposit(stage, account).await?;
        stage.proxy.cut();
        branch.decide(outcome).await?;
        stage.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
    }
    Ok(())
}

pub async fn a_vote_whose_answer_is_lost_is_rolled_back(stage: &mut Stage) -> Result<()> {
    let account = stage.account().await?;
    let mut branch = stage.own.begin(attempt()).await?;
    stage.deposit(&mut branch, account).await?;
    let name = branch.name();
    stage.proxy.hold_answers();
    let voting = tokio::spawn(async move { (branch.vote().await, branch) });
    until!(stage.is_prepared(&name).await?);
    stage.proxy.cut();
    stage.proxy.release();
    let (vote, branch) = voting.await?;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?}");
    branch.decide(Outcome::Abort).await?;
    ensure!(!stage.is_prepared(&name).await?);
    stage.expect_balance(account, 0).await
}

/// A vote that is under way is not seen by who undoes the try. It must be found afterwards.
pub async fn a_late_vote_is_found(stage: &mut Stage) -> Result<()> {
    let account = stage.account().await?;
    let mut branch = stage.own.begin(attempt()).await?;
    stage.deposit(&mut branch, account).await?;
    let name = branch.name();
    stage.proxy.hold();
    let voting = tokio::spawn(async move { (branch.vote().await, branch) });
    tokio::task::yield_now().await;
    stage.other.decide(&name, Outcome::Abort).await?;
    ensure!(!stage.is_prepared(&name).await?);
    stage.proxy.release();
    let (vote, branch) = voting.await?;
    ensure!(matches!(vote, Vote::Yes), "it votes {vote:?}");
    ensure!(stage.is_prepared(&name).await?);
    stage.other.decide(&name, Outcome::Abort).await?;
    ensure!(!stage.is_prepared(&name).await?);
    branch.decide(Outcome::Abort).await?;
    stage.expect_balance(account, 0).await
}

pub async fn a_statement_nobody_waits_for_is_rolled_back(stage: &mut Stage) -> Result<()> {
    let [account, locked] = [stage.account().await?, stage.account().await?];
    let blocker = prepared_deposit(stage, locked).await?;
    let mut branch = stage.own.begin(attempt()).await?;
    stage.deposit(&mut branch, account).await?;
    let short = std::time::Duration::from_millis(50);
    ensure!(tokio::time::timeout(short, stage.deposit(&mut branch, locked)).await.is_err());
    let vote = branch.vote().await;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?}");
    branch.decide(Outcome::Abort).await?;
    // At once: the session is ended, and its locks are gone with it.
    stage.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await?;
    blocker.decide(Outcome::Commit).await?;
    stage.expect_balance(locked, 1).await?;
    stage.expect_balance(account, 5).await
}
