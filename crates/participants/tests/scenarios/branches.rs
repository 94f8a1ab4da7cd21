//! Branches from begin to end, without connection failures.

use anyhow::{Context, Result, ensure};
use jeton_etx::{Outcome, ResourceError, Value, Vote};

use super::fixture::{Engine, Fixture, attempt, settings};
use crate::expect_vote;

pub async fn commit_after_vote(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    fixture.expect_balance(account, 0).await?;
    let name = branch.name();
    ensure!(fixture.is_prepared(&name).await?);
    branch.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await?;
    ensure!(!fixture.is_prepared(&name).await?);
    Ok(())
}

pub async fn rollback_after_vote(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    let name = branch.name();
    branch.decide(Outcome::Abort).await?;
    ensure!(!fixture.is_prepared(&name).await?);
    fixture.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await?;
    fixture.expect_balance(account, 5).await
}

pub async fn rollback_before_vote(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.open_deposit(attempt()).await?;
    branch.decide(Outcome::Abort).await?;
    fixture.raw(&format!("UPDATE account SET n = n + 5 WHERE id = {account}")).await?;
    fixture.expect_balance(account, 5).await
}

/// PostgreSQL reports that a failed transaction is prepared; MariaDB prepares the statements that did not
/// fail.
pub async fn failed_statement_fails_the_branch(fixture: &mut Fixture) -> Result<()> {
    let (account, mut branch) = fixture.open_deposit(attempt()).await?;
    let again = format!("INSERT INTO account VALUES ({account}, 0)");
    let failed = branch.execute(&again, &[]).await;
    ensure!(matches!(failed, Err(ResourceError::Statement { .. })), "{failed:?}");
    let name = branch.name();
    expect_vote!(branch, Vote::No(_));
    ensure!(!fixture.is_prepared(&name).await?, "it is prepared after an error");
    ensure!(branch.execute("SELECT 1", &[]).await.is_err());
    branch.decide(Outcome::Abort).await?;
    fixture.expect_balance(account, 0).await
}

pub async fn control_statements_are_refused(fixture: &mut Fixture) -> Result<()> {
    for statement in ["COMMIT", "/* now */ rollback", "SET autocommit = 1", "BEGIN"] {
        let account = fixture.account().await?;
        for attempt in [attempt(), super::fixture::attempt_at_home()] {
            let mut branch = fixture.own.begin(attempt).await?;
            fixture.deposit(&mut branch, account).await?;
            let refused = branch.execute(statement, &[]).await;
            ensure!(matches!(refused, Err(ResourceError::Statement { .. })), "{statement}: {refused:?}");
            branch.decide(Outcome::Abort).await?;
        }
        fixture.expect_balance(account, 0).await?;
    }
    Ok(())
}

/// All ways to end a branch on one connection, which is never reset. Acknowledged commits survive a crash.
pub async fn connections_are_reused_without_leftovers(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    for _ in 0..5 {
        fixture.prepared_deposit_into(account).await?.decide(Outcome::Commit).await?;
        fixture.prepared_deposit_into(account).await?.decide(Outcome::Abort).await?;
        let mut failing = fixture.own.begin(attempt()).await?;
        fixture.deposit(&mut failing, account).await?;
        ensure!(failing.execute("SELECT 1 FROM nowhere", &[]).await.is_err());
        failing.decide(Outcome::Abort).await?;
        let mut reading = fixture.own.begin(attempt()).await?;
        reading.execute("SELECT 1", &[]).await?;
        match reading.vote().await {
            Vote::Unchanged => {}
            Vote::Yes => reading.decide(Outcome::Commit).await?,
            Vote::No(failure) => return Err(failure.into()),
        }
    }
    let connections = fixture.proxy.count_ever();
    ensure!(connections == 1, "{connections} connections for branches one after the other");
    fixture.expect_balance(account, 5).await?;
    fixture.server.kill();
    fixture.server.restart()?;
    fixture.expect_balance(account, 5).await?;
    // A branch that was rolled back may be prepared again; another scenario checks that.
    for listed in fixture.other.prepared().await? {
        fixture.other.decide(&listed.name, Outcome::Abort).await?;
    }
    Ok(())
}

pub async fn connections_are_bounded(fixture: &mut Fixture) -> Result<()> {
    let wait_max = std::time::Duration::from_millis(300);
    let narrow =
        fixture.server(true, jeton_participants::Settings { branches_max: 2, wait_max, ..settings() })?;
    let first = narrow.begin(attempt()).await?;
    let _second = narrow.begin(attempt()).await?;
    let third = narrow.begin(attempt()).await.err();
    ensure!(matches!(third, Some(ResourceError::Unavailable { .. })), "{third:?}");
    // Recovery has connections of its own.
    ensure!(narrow.prepared().await?.is_empty());
    first.decide(Outcome::Abort).await?;
    narrow.begin(attempt()).await?.decide(Outcome::Abort).await?;
    Ok(())
}

pub async fn lock_timeout_is_transient(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    let mut waiting = fixture.other.begin(attempt()).await?;
    let waited = fixture.deposit(&mut waiting, account).await;
    let failure = waited.err().and_then(|error| error.downcast::<ResourceError>().ok());
    ensure!(matches!(failure, Some(ResourceError::Transient { .. })), "{failure:?}");
    waiting.decide(Outcome::Abort).await?;
    branch.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}

/// MariaDB reports an unknown branch in this case.
pub async fn other_server_commits_while_owner_is_connected(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    fixture.other.decide(&branch.name(), Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await?;
    // The owner comes late and gets a success.
    branch.decide(Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}

pub async fn concurrent_resolution(fixture: &mut Fixture) -> Result<()> {
    for _ in 0..10 {
        let (account, branch) = fixture.prepared_deposit().await?;
        let name = branch.name();
        drop(branch);
        let decide = || fixture.other.decide(&name, Outcome::Commit);
        let (a, b, c, d) = tokio::join!(decide(), decide(), decide(), decide());
        for result in [a, b, c, d] {
            result?;
        }
        fixture.expect_balance(account, 1).await?;
    }
    Ok(())
}

pub async fn outcome_cannot_change(fixture: &mut Fixture) -> Result<()> {
    let (account, branch) = fixture.prepared_deposit().await?;
    let name = branch.name();
    branch.decide(Outcome::Commit).await?;
    fixture.other.decide(&name, Outcome::Commit).await?;
    let undone = fixture.other.decide(&name, Outcome::Abort).await;
    ensure!(matches!(undone, Err(ResourceError::Damage { .. })), "{undone:?}");
    let branch = fixture.prepared_deposit_into(account).await?;
    let name = branch.name();
    branch.decide(Outcome::Abort).await?;
    fixture.other.decide(&name, Outcome::Abort).await?;
    fixture.expect_balance(account, 1).await
}

pub async fn heuristic_outcome_is_reported(fixture: &mut Fixture) -> Result<()> {
    let (_, branch) = fixture.prepared_deposit().await?;
    let name = branch.name();
    drop(branch);
    fixture.end_by_hand(&name).await?;
    let decided = fixture.other.decide(&name, Outcome::Commit).await;
    ensure!(matches!(decided, Err(ResourceError::Damage { .. })), "{decided:?}");
    // A branch that never existed cannot be committed, but can be rolled back.
    let never = jeton_etx::Xid { coordinator: attempt().coordinator, ..name };
    let decided = fixture.other.decide(&never, Outcome::Commit).await;
    ensure!(matches!(decided, Err(ResourceError::Damage { .. })), "{decided:?}");
    fixture.other.decide(&never, Outcome::Abort).await?;
    Ok(())
}

pub async fn row_counts_are_reported(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    let unchanged = fixture.engine.sql("UPDATE account SET n = n WHERE id = ?");
    let select = fixture.engine.sql("SELECT n FROM account WHERE id = ?");
    for statement in [&unchanged, &select] {
        let met = branch.execute(statement, &[Value::Integer(account)]).await?.count;
        ensure!(met == 1, "{statement}: {met}");
        let met = branch.execute(statement, &[Value::Integer(-7)]).await?.count;
        ensure!(met == 0, "{statement}: {met} where there is none");
    }
    branch.decide(Outcome::Abort).await?;
    Ok(())
}

pub async fn locks_of_prepared_branch_are_listed(fixture: &mut Fixture) -> Result<()> {
    let (_, branch) = fixture.prepared_deposit().await?;
    let locks = fixture.other.locks(&branch.name()).await?;
    let expected = match fixture.engine {
        Engine::Postgres => "account: RowExclusiveLock",
        Engine::MariaDb { .. } => " rows in ",
    };
    ensure!(locks.iter().any(|lock| lock.contains(expected)), "{locks:?}");
    let name = branch.name();
    branch.decide(Outcome::Commit).await?;
    // MariaDB's information is up to 0.1 s old.
    ensure!(!matches!(fixture.engine, Engine::Postgres) || fixture.other.locks(&name).await?.is_empty());
    Ok(())
}

pub async fn values_round_trip(fixture: &mut Fixture) -> Result<()> {
    let (table, select) = match fixture.engine {
        Engine::Postgres => (
            "CREATE TABLE IF NOT EXISTS kinds (a smallint, b int, c bigint, d numeric(20, 4), e double precision, f text, \
             g bytea, h boolean, i uuid, j jsonb, k timestamptz, l date)",
            "INSERT INTO kinds VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        ),
        Engine::MariaDb { .. } => (
            "CREATE TABLE IF NOT EXISTS kinds (a smallint, b int, c bigint, d decimal(20, 4), e double, f text, \
             g blob, h boolean, i varchar(40), j json, k datetime(6), l date)",
            "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ),
    };
    fixture.raw(table).await?;
    let text = |text: &str| Value::Text(text.into());
    let mut values = vec![
        Value::Integer(-7),
        Value::Integer(i32::MAX.into()),
        Value::Integer(i64::MIN),
        Value::Decimal("-1234567890123.0500".into()),
        Value::Float(0.1),
        text("Grüße ' \\ \0?"),
        Value::Bytes(vec![0, 255, b'\'']),
        Value::Bool(true),
        text("01928f00-dead-7000-8000-0000000000ff"),
        text("{\"a\": 1}"),
        text("2024-02-29 12:34:56.789012+00"),
        text("1969-12-31"),
    ];
    match fixture.engine {
        // PostgreSQL text cannot contain NUL.
        Engine::Postgres => values[5] = text("Grüße ' \\ ?"),
        Engine::MariaDb { .. } => {
            values[10] = text("2024-02-29 12:34:56.789012");
            values[7] = Value::Integer(1);
        }
    }
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("DELETE FROM kinds", &[]).await?;
    branch.execute(select, &values).await?;
    branch.execute(select, &vec![Value::Null; values.len()]).await?;
    let rows = branch.execute("SELECT * FROM kinds ORDER BY a IS NULL", &[]).await?.rows;
    let back: Vec<Value> = rows[0].iter().map(|(_, value)| value.clone()).collect();
    ensure!(back == values, "{back:?}\n{values:?}");
    ensure!(rows[1].iter().all(|(_, value)| *value == Value::Null) && rows[1][3].0 == "d");
    // A number for text, text for a number, and a number out of range.
    let one = fixture.engine.sql("SELECT id FROM account WHERE id = ? AND 'a' <> ?");
    branch.execute(&one, &[text("0"), Value::Integer(5)]).await?;
    let wrong = branch.execute(&one, &[Value::Integer(1)]).await;
    ensure!(matches!(wrong, Err(ResourceError::Statement { .. })), "{wrong:?}");
    branch.decide(Outcome::Abort).await?;
    Ok(())
}

pub async fn prepared_branches_have_an_age(fixture: &mut Fixture) -> Result<()> {
    let (_, branch) = fixture.prepared_deposit().await?;
    let listed = fixture.other.prepared().await?;
    let age = listed.first().and_then(|listed| listed.age).context("no age")?;
    ensure!(age.as_secs() < 20);
    branch.decide(Outcome::Abort).await?;
    Ok(())
}
