//! Decisions that are recorded in the database itself.

use anyhow::{Result, ensure};
use jeton_etx::{AttemptNumber, Outcome, RequestId, ResourceError};

use super::fixture::{Fixture, Server, attempt_at_home};
use crate::until;

pub async fn decision_commits_with_the_branch(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    let attempt = attempt_at_home();
    ensure!(fixture.other.read_decision(attempt.request, AttemptNumber::FIRST).await?.is_none());
    let mut branch = fixture.own.begin(attempt).await?;
    fixture.deposit(&mut branch, account).await?;
    let decision = [&[0, 255, b'\''][..], &[7; 70_000]].concat();
    ensure!(branch.commit_deciding(&decision).await? == decision);
    fixture.expect_balance(account, 1).await?;
    ensure!(
        fixture.other.read_decision(attempt.request, AttemptNumber::FIRST).await? == Some(decision.clone())
    );
    ensure!(fixture.other.write_decision(attempt.request, AttemptNumber::FIRST, b"other").await? == decision);
    // Another attempt has another decision.
    ensure!(fixture.other.write_decision(attempt.request, AttemptNumber(2), b"").await?.is_empty());
    ensure!(fixture.other.read_decision(attempt.request, AttemptNumber(2)).await? == Some(Vec::new()));
    let mut next = fixture.own.begin(attempt_at_home()).await?;
    fixture.deposit(&mut next, account).await?;
    next.commit_deciding(b"x").await?;
    ensure!(fixture.proxy.count_ever() == 1, "the connection is reused");
    Ok(())
}

pub async fn existing_decision_rolls_the_branch_back(fixture: &mut Fixture) -> Result<()> {
    let attempt = attempt_at_home();
    let (account, branch) = fixture.open_deposit(attempt).await?;
    ensure!(fixture.other.write_decision(attempt.request, AttemptNumber::FIRST, b"void").await? == b"void");
    ensure!(branch.commit_deciding(b"done").await? == b"void");
    fixture.expect_balance(account, 0).await
}

pub async fn one_of_two_coordinators_commits(fixture: &mut Fixture) -> Result<()> {
    for _ in 0..10 {
        let [mine, theirs] = [fixture.account().await?, fixture.account().await?];
        let attempt = attempt_at_home();
        let rival = jeton_etx::AttemptId { coordinator: attempt_at_home().coordinator, ..attempt };
        let mut one = fixture.own.begin(attempt).await?;
        let mut other = fixture.other.begin(rival).await?;
        fixture.deposit(&mut one, mine).await?;
        fixture.deposit(&mut other, theirs).await?;
        let (first, second) = tokio::join!(one.commit_deciding(b"mine"), other.commit_deciding(b"theirs"));
        let (first, second) = (first?, second?);
        ensure!(first == second);
        fixture.expect_balance(mine, (first == b"mine").into()).await?;
        fixture.expect_balance(theirs, (first == b"theirs").into()).await?;
    }
    Ok(())
}

pub async fn owner_races_recovery(fixture: &mut Fixture) -> Result<()> {
    for _ in 0..20 {
        let attempt = attempt_at_home();
        let (account, branch) = fixture.open_deposit(attempt).await?;
        let clean = async {
            fixture.other.fence(attempt.coordinator).await?;
            fixture.other.write_decision(attempt.request, AttemptNumber::FIRST, b"void").await
        };
        let (owner, cleaner) = tokio::join!(branch.commit_deciding(b"done"), clean);
        let stands = cleaner?;
        // The session of the owner may have been terminated before the response; a response must be right.
        if let Ok(known) = owner {
            ensure!(known == stands, "{known:?} and {stands:?}");
        }
        fixture.expect_balance(account, (stands == b"done").into()).await?;
    }
    Ok(())
}

pub async fn lost_response_is_looked_up(fixture: &mut Fixture) -> Result<()> {
    let attempt = attempt_at_home();
    let (account, branch) = fixture.open_deposit(attempt).await?;
    fixture.proxy.hold_responses();
    let deciding = tokio::spawn(branch.commit_deciding(b"done"));
    until!(fixture.other.read_decision(attempt.request, AttemptNumber::FIRST).await?.is_some());
    fixture.proxy.cut();
    fixture.proxy.release();
    ensure!(deciding.await?? == b"done");
    fixture.expect_balance(account, 1).await
}

pub async fn lost_request_decides_nothing(fixture: &mut Fixture) -> Result<()> {
    let attempt = attempt_at_home();
    let (account, branch) = fixture.open_deposit(attempt).await?;
    fixture.proxy.cut();
    let decided = branch.commit_deciding(b"done").await;
    ensure!(matches!(decided, Err(ResourceError::Transient { .. })), "{decided:?}");
    ensure!(fixture.other.write_decision(attempt.request, AttemptNumber::FIRST, b"void").await? == b"void");
    fixture.expect_balance(account, 0).await
}

/// An owner that has written its decision and neither commits nor dies is waited for, up to the lock timeout.
pub async fn decision_in_flight_is_awaited(fixture: &mut Fixture) -> Result<()> {
    let RequestId { session, sequence } = attempt_at_home().request;
    let request = RequestId { session, sequence };
    let cluster = super::fixture::CLUSTER;
    let written = match &fixture.server {
        Server::Postgres(server) => {
            let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let insert = format!(
                "BEGIN; INSERT INTO etx_decision VALUES ({cluster}, '{session:032x}'::uuid, {sequence}, 1, 'hung')"
            );
            client.batch_execute(&insert).await?;
            let waited = fixture.other.write_decision(request, AttemptNumber::FIRST, b"void").await;
            client.batch_execute("ROLLBACK").await?;
            waited
        }
        Server::MariaDb(server) => {
            use mysql_async::prelude::Queryable;
            let mut conn = super::fixture::mariadb(server).await?;
            conn.query_drop("START TRANSACTION").await?;
            let insert = format!(
                "INSERT INTO etx_decision VALUES ({cluster}, x'{session:032x}', {sequence}, 1, 'hung')"
            );
            conn.query_drop(insert).await?;
            let waited = fixture.other.write_decision(request, AttemptNumber::FIRST, b"void").await;
            conn.query_drop("ROLLBACK").await?;
            conn.disconnect().await?;
            waited
        }
    };
    ensure!(matches!(written, Err(ResourceError::Transient { .. })), "{written:?}");
    ensure!(fixture.other.write_decision(request, AttemptNumber::FIRST, b"void").await? == b"void");
    Ok(())
}

pub async fn forgotten_session_is_not_decided_again(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    let [old, open, new] = [attempt_at_home(), attempt_at_home(), attempt_at_home()];
    for attempt in [old, new] {
        ensure!(fixture.own.write_decision(attempt.request, AttemptNumber::FIRST, b"done").await? == b"done");
    }
    let marked = fixture.prepared_deposit_into(account).await?;
    let marked_name = marked.name();
    marked.decide(Outcome::Commit).await?;
    let mut branch = fixture.own.begin(open).await?;
    fixture.deposit(&mut branch, account).await?;

    fixture.other.forget(new.request.session).await?;
    for attempt in [old, open] {
        let written = fixture.own.write_decision(attempt.request, AttemptNumber::FIRST, b"again").await;
        ensure!(matches!(written, Err(ResourceError::Forgotten { .. })), "{written:?}");
        let read = fixture.own.read_decision(attempt.request, AttemptNumber::FIRST).await;
        ensure!(matches!(read, Err(ResourceError::Forgotten { .. })), "{read:?}");
    }
    let decided = branch.commit_deciding(b"late").await;
    ensure!(matches!(decided, Err(ResourceError::Forgotten { .. })), "{decided:?}");
    fixture.expect_balance(account, 1).await?;
    ensure!(fixture.own.read_decision(new.request, AttemptNumber::FIRST).await? == Some(b"done".to_vec()));

    // The retention limit never falls, and commit markers are deleted too.
    fixture.other.forget(old.request.session).await?;
    ensure!(fixture.own.read_decision(old.request, AttemptNumber::FIRST).await.is_err());
    let mark = format!("SELECT 1 FROM etx_commit_marker WHERE gid = '{}'", marked_name.gid());
    ensure!(!fixture.raw(&mark).await?.is_empty());
    fixture.other.forget(marked_name.request.session + 1).await?;
    ensure!(fixture.raw(&mark).await?.is_empty());
    Ok(())
}
