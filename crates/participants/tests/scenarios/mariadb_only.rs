//! Scenarios of MariaDB only.

use anyhow::{Context, Result, ensure};
use jeton_etx::{AttemptNumber, Outcome, ResourceError, Vote, Xid};
use jeton_participants::MariaDb;
use mysql_async::prelude::Queryable;

use super::fixture::{Engine, Fixture, Server, attempt, settings};
use crate::{expect_vote, until};

pub async fn branch_without_statement_ends_at_vote(fixture: &mut Fixture) -> Result<()> {
    let mut branch = fixture.own.begin(attempt()).await?;
    expect_vote!(branch, Vote::Unchanged);
    Ok(branch.decide(Outcome::Commit).await?)
}

/// MariaDB drops a prepared branch that changed nothing together with its session, and reports that when
/// another server commits it.
pub async fn read_only_branch_can_be_committed_by_others(fixture: &mut Fixture) -> Result<()> {
    for is_crashed in [false, true] {
        let mut branch = fixture.own.begin(attempt()).await?;
        branch.execute("SELECT * FROM account", &[]).await?;
        expect_vote!(branch, Vote::Yes);
        let name = branch.name();
        if is_crashed {
            fixture.server.kill();
            fixture.server.restart()?;
        } else {
            drop(branch);
        }
        fixture.other.decide(&name, Outcome::Commit).await?;
    }
    Ok(())
}

/// Without a binary log, a branch whose rollback was acknowledged is sometimes prepared again after a crash.
pub async fn branch_reappearing_after_crash_is_listed(fixture: &mut Fixture) -> Result<()> {
    // Usually the first round shows it. With a binary log no branch comes back.
    let has_binlog = fixture.engine == Engine::MariaDb { binlog: true };
    for _ in 0..if has_binlog { 12 } else { 100 } {
        let account = fixture.account().await?;
        fixture.prepared_deposit_into(account).await?.decide(Outcome::Abort).await?;
        fixture.server.kill();
        fixture.server.restart()?;
        let listed = fixture.raw("XA RECOVER").await?.len();
        let found = fixture.other.prepared().await?.len() + fixture.own.prepared().await?.len();
        for listed in fixture.other.prepared().await? {
            fixture.other.decide(&listed.name, Outcome::Abort).await?;
        }
        let left = fixture.raw("XA RECOVER").await?.len();
        // Clean up on a separate connection for the next scenario.
        for row in fixture.raw("XA RECOVER").await? {
            fixture.raw(&format!("XA ROLLBACK '{}','{}',{}", &row[3][..52], &row[3][52..], row[0])).await?;
        }
        ensure!(found == 2 * listed && left == 0, "{listed} came back, {found} of {} found", 2 * listed);
        fixture.expect_balance(account, 0).await?;
        if listed > 0 {
            return Ok(());
        }
    }
    ensure!(has_binlog, "nothing came back, so nothing was shown");
    Ok(())
}

pub async fn non_transactional_tables_are_refused(fixture: &mut Fixture) -> Result<()> {
    fixture.raw("CREATE TABLE old_fashioned (n int) ENGINE=MyISAM").await?;
    let result = async {
        let mut branch = fixture.own.begin(attempt()).await?;
        branch.execute("SELECT * FROM old_fashioned", &[]).await?;
        let refused = branch.execute("INSERT INTO `old_fashioned` VALUES (1)", &[]).await;
        let Err(ResourceError::Statement { why, .. }) = &refused else { anyhow::bail!("{refused:?}") };
        ensure!(why.contains("ENGINE=InnoDB"), "{why}");
        branch.decide(Outcome::Abort).await?;
        let Server::MariaDb(server) = &fixture.server else { anyhow::bail!("another engine") };
        let warnings = MariaDb::new(&server.url(), settings())?.ensure_schema().await?;
        ensure!(warnings.iter().any(|warning| warning.contains("old_fashioned")), "{warnings:?}");
        ensure!(fixture.raw("SELECT * FROM old_fashioned").await?.is_empty());
        Ok(())
    };
    let result = result.await;
    fixture.raw("DROP TABLE old_fashioned").await?;
    result
}

/// Other servers resolve a branch while its session ends. Without a delay MariaDB sometimes reports success
/// without effect.
pub async fn branch_is_resolved_while_its_session_ends(fixture: &mut Fixture) -> Result<()> {
    for round in 0..fixture.rounds {
        let (account, branch) = fixture.prepared_deposit().await?;
        let name = branch.name();
        let gone = async { drop(branch) };
        let decide = || fixture.other.decide(&name, Outcome::Commit);
        let (_, a, b, c) = tokio::join!(gone, decide(), decide(), decide());
        for result in [a, b, c] {
            result.with_context(|| format!("in round {round}"))?;
        }
        fixture.expect_balance(account, 1).await?;
    }
    Ok(())
}

/// Statements that change tables commit a plain transaction implicitly; an XA transaction refuses them
/// itself.
pub async fn implicit_commits_are_refused(fixture: &mut Fixture) -> Result<()> {
    for attempt in [attempt(), super::fixture::attempt_at_home()] {
        let (account, mut branch) = fixture.open_deposit(attempt).await?;
        let refused = branch.execute("CREATE TABLE surprise (n int)", &[]).await;
        ensure!(matches!(refused, Err(ResourceError::Statement { .. })), "{refused:?}");
        branch.decide(Outcome::Abort).await?;
        fixture.expect_balance(account, 0).await?;
    }
    // Not detected by its first label: it shows when the transaction has ended.
    fixture.raw("CREATE OR REPLACE PROCEDURE surprise() COMMIT").await?;
    let attempt = super::fixture::attempt_at_home();
    let mut branch = fixture.own.begin(attempt).await?;
    let called = branch.execute("CALL surprise()", &[]).await;
    ensure!(matches!(called, Err(ResourceError::Statement { .. })), "{called:?}");
    ensure!(branch.commit_deciding(b"done").await.is_err());
    ensure!(fixture.other.read_decision(attempt.request, AttemptNumber::FIRST).await?.is_none());
    Ok(())
}

/// MariaDB rolls the victim of a deadlock back; later statements must not be committed on their own.
pub async fn deadlock_victim_executes_nothing_more(fixture: &mut Fixture) -> Result<()> {
    for attempts in
        [[attempt(), attempt()], [super::fixture::attempt_at_home(), super::fixture::attempt_at_home()]]
    {
        let [a, b] = [fixture.account().await?, fixture.account().await?];
        let mut one = fixture.own.begin(attempts[0]).await?;
        let mut other = fixture.own.begin(attempts[1]).await?;
        fixture.deposit(&mut one, a).await?;
        fixture.deposit(&mut other, b).await?;
        let (first, second) = tokio::join!(fixture.deposit(&mut one, b), fixture.deposit(&mut other, a));
        ensure!(first.is_err() || second.is_err());
        for (mut branch, result) in [(one, first), (other, second)] {
            if result.is_err() {
                ensure!(fixture.deposit(&mut branch, a).await.is_err());
            }
            branch.decide(Outcome::Abort).await?;
        }
        until!(fixture.balance(a).await? == 0 && fixture.balance(b).await? == 0);
    }
    Ok(())
}

pub async fn wrong_setup_is_reported_with_remedy(fixture: &mut Fixture) -> Result<()> {
    let Server::MariaDb(server) = &fixture.server else { anyhow::bail!("another engine") };
    let address = server.address();
    fixture.raw("CREATE OR REPLACE USER guest").await?;
    fixture.raw("GRANT SELECT ON jeton.* TO guest").await?;
    for (url, label) in [
        (format!("mysql://stranger:x@{address}/jeton"), "password"),
        (format!("mysql://root@{address}/nowhere"), "database"),
        (format!("mysql://root@{address}"), "URL"),
        (format!("mysql://guest@{address}/jeton"), "grant"),
    ] {
        let result = MariaDb::new(&url, settings())?.ensure_schema().await;
        let Err(ResourceError::Setup { remedy, .. }) = &result else { anyhow::bail!("{label}: {result:?}") };
        ensure!(remedy.contains(label), "{remedy}");
    }
    ensure!(matches!(MariaDb::new("nonsense", settings()).err(), Some(ResourceError::Setup { .. })));
    // The privileges that are enough once the tables exist.
    fixture.raw("GRANT SELECT, INSERT, UPDATE, DELETE ON jeton.* TO guest").await?;
    MariaDb::new(&format!("mysql://guest@{address}/jeton"), settings())?.ensure_schema().await?;
    Ok(())
}

/// Statements executed without a branch would be permanent.
pub async fn failed_begin_executes_nothing(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    let name = branch.name();
    // Another session has the same XA identifier.
    let xid = format!("'{}','{}',{}", name.gtrid(), name.bqual(), Xid::FORMAT);
    let note = format!("INSERT INTO etx_commit_marker (gid) VALUES ('{}')", name.gid());
    fixture.raw(&format!("XA START {xid}; {note}; XA END {xid}; XA PREPARE {xid}")).await?;
    let done = fixture.deposit(&mut branch, account).await;
    drop(branch);
    fixture.expect_balance(account, 0).await?;
    ensure!(done.is_err(), "it was done without a branch");
    Ok(fixture.other.decide(&name, Outcome::Abort).await?)
}

pub async fn vote_without_commit_marker_is_no(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    let name = branch.name();
    fixture.raw(&format!("INSERT INTO etx_commit_marker (gid) VALUES ('{}')", name.gid())).await?;
    let vote = branch.vote().await;
    let is_prepared = fixture.is_prepared(&name).await?;
    drop(branch);
    ensure!(matches!(vote, Vote::No(_)) && !is_prepared, "it votes {vote:?}");
    fixture.raw(&format!("DELETE FROM etx_commit_marker WHERE gid = '{}'", name.gid())).await?;
    fixture.expect_balance(account, 0).await
}

/// The prepare is several statements in one message, and the client library reports an error of a later one
/// only on the next read.
pub async fn late_prepare_error_is_a_no_vote(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    let name = branch.name();
    let Server::MariaDb(server) = &fixture.server else { anyhow::bail!("no MariaDB") };
    // A backup blocks prepares and commits, and nothing before them.
    let mut backup = super::fixture::mariadb(server).await?;
    for step in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        backup.query_drop(format!("BACKUP STAGE {step}")).await?;
    }
    let id = name.connection;
    let waits =
        format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {id} AND STATE LIKE '%backup%'");
    let voting = tokio::spawn(async move { branch.vote().await });
    until!(!fixture.raw(&waits).await?.is_empty());
    fixture.raw(&format!("KILL QUERY {id}")).await?;
    let vote = voting.await?;
    backup.query_drop("BACKUP STAGE END").await?;
    ensure!(matches!(vote, Vote::No(_)) && !fixture.is_prepared(&name).await?, "it votes {vote:?}");
    fixture.expect_balance(account, 0).await
}
