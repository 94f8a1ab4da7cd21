//! Lost connections and crashes of the database.

use anyhow::{Result, ensure};
use jeton_etx::{Outcome, Vote};

use super::fixture::{Fixture, attempt};
use crate::{expect_vote, until};

pub async fn prepared_branch_survives_database_crash(fixture: &mut Fixture) -> Result<()> {
    let [one, other] = [fixture.account().await?, fixture.account().await?];
    let first = fixture.prepared_deposit_into(one).await?;
    let second = fixture.prepared_deposit_into(other).await?;
    fixture.server.kill();
    fixture.server.restart()?;
    fixture.expect_balance(one, 0).await?;
    fixture.other.decide(&first.name(), Outcome::Commit).await?;
    // The connection is dead.
    second.decide(Outcome::Commit).await?;
    fixture.expect_balance(one, 1).await?;
    fixture.expect_balance(other, 1).await
}

pub async fn dead_idle_connections_are_replaced(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    fixture.prepared_deposit_into(account).await?.decide(Outcome::Commit).await?;
    fixture.other.prepared().await?;
    fixture.server.kill();
    fixture.server.restart()?;
    fixture.prepared_deposit_into(account).await?.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 2).await
}

pub async fn connection_lost_before_vote_aborts(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    fixture.proxy.cut();
    expect_vote!(branch, Vote::No(_));
    branch.decide(Outcome::Abort).await?;
    // Its locks are released.
    until!(fixture.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await.is_ok());
    fixture.expect_balance(account, 5).await
}

pub async fn connection_lost_after_vote_keeps_the_branch(fixture: &mut Fixture) -> Result<()> {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let (account, branch) = fixture.prepared_deposit().await?;
        fixture.proxy.cut();
        branch.decide(outcome).await?;
        fixture.expect_balance(account, (outcome == Outcome::Commit).into()).await?;
    }
    Ok(())
}

pub async fn vote_with_lost_response_is_rolled_back(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    let name = branch.name();
    fixture.proxy.hold_responses();
    let voting = tokio::spawn(async move { (branch.vote().await, branch) });
    until!(fixture.is_prepared(&name).await?);
    fixture.proxy.cut();
    fixture.proxy.release();
    let (vote, branch) = voting.await?;
    ensure!(matches!(vote, Vote::No(_)), "it votes {vote:?}");
    branch.decide(Outcome::Abort).await?;
    ensure!(!fixture.is_prepared(&name).await?);
    fixture.expect_balance(account, 0).await
}

/// A rollback does not see a prepare in flight. Recovery must find the branch afterwards.
pub async fn late_prepare_is_listed(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    let name = branch.name();
    fixture.proxy.hold();
    let voting = tokio::spawn(async move { (branch.vote().await, branch) });
    tokio::task::yield_now().await;
    fixture.other.decide(&name, Outcome::Abort).await?;
    ensure!(!fixture.is_prepared(&name).await?);
    fixture.proxy.release();
    let (vote, branch) = voting.await?;
    ensure!(matches!(vote, Vote::Yes), "it votes {vote:?}");
    ensure!(fixture.is_prepared(&name).await?);
    fixture.other.decide(&name, Outcome::Abort).await?;
    ensure!(!fixture.is_prepared(&name).await?);
    branch.decide(Outcome::Abort).await?;
    fixture.expect_balance(account, 0).await
}

pub async fn abandoned_statement_is_rolled_back(fixture: &mut Fixture) -> Result<()> {
    let [account, locked] = [fixture.account().await?, fixture.account().await?];
    let blocker = fixture.prepared_deposit_into(locked).await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    fixture.deposit(&mut branch, account).await?;
    let short = std::time::Duration::from_millis(50);
    ensure!(tokio::time::timeout(short, fixture.deposit(&mut branch, locked)).await.is_err());
    expect_vote!(branch, Vote::No(_));
    branch.decide(Outcome::Abort).await?;
    // At once: the session is terminated, and its locks are released.
    fixture.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await?;
    blocker.decide(Outcome::Commit).await?;
    fixture.expect_balance(locked, 1).await?;
    fixture.expect_balance(account, 5).await
}
