//! Scenarios of PostgreSQL only.

use anyhow::{Result, ensure};
use jeton_etx::{Resource, ResourceError, Value, Vote};
use jeton_participants::{Postgres, Settings};

use super::fixture::{Fixture, Server, attempt, settings};
use crate::expect_vote;

pub async fn unchanged_branch_ends_at_vote(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    for statement in
        ["SELECT n FROM account WHERE id = $1", "UPDATE account SET n = 1 WHERE id = $1 AND n = 77"]
    {
        let mut branch = fixture.own.begin(attempt()).await?;
        branch.execute(statement, &[Value::Integer(account)]).await?;
        expect_vote!(branch, Vote::Unchanged);
        branch.decide(jeton_etx::Outcome::Commit).await?;
    }
    // A function that writes is not read-only.
    fixture
        .raw(&format!(
            "CREATE OR REPLACE FUNCTION deposit() RETURNS int LANGUAGE sql AS \
             'UPDATE account SET n = n + 1 WHERE id = {account} RETURNING n'"
        ))
        .await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("SELECT deposit()", &[]).await?;
    expect_vote!(branch, Vote::Yes);
    branch.decide(jeton_etx::Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}

/// The begin is sent together with the first statement. If the begin fails, the statement must not be
/// executed on its own: outside of a branch the session is read-only.
pub async fn session_is_read_only_outside_of_branches(fixture: &mut Fixture) -> Result<()> {
    let mut branch = fixture.own.begin(attempt()).await?;
    let settings =
        "SELECT current_setting('default_transaction_read_only'), current_setting('transaction_read_only')";
    let found = branch.execute(settings, &[]).await?;
    let wanted = [Value::Text("on".into()), Value::Text("off".into())];
    ensure!(
        found.rows.first().is_some_and(|row| row.iter().map(|(_, value)| value).eq(&wanted)),
        "a session and a branch: {:?}",
        found.rows
    );
    Ok(branch.decide(jeton_etx::Outcome::Abort).await?)
}

/// A deferred constraint fails the vote, whatever its error code; also the code that signals an unchanged
/// branch.
pub async fn deferred_constraint_fails_the_vote(fixture: &mut Fixture) -> Result<()> {
    fixture
        .raw(
            "CREATE TABLE IF NOT EXISTS checked (n int); \
             CREATE OR REPLACE FUNCTION divide() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 / NEW.n; RETURN NEW; END'; \
             DROP TRIGGER IF EXISTS late ON checked; \
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION divide()",
        )
        .await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("INSERT INTO checked VALUES (0)", &[]).await?;
    expect_vote!(branch, Vote::No(ResourceError::Statement { .. }));
    branch.decide(jeton_etx::Outcome::Abort).await?;
    ensure!(fixture.raw("SELECT 1 FROM checked").await?.is_empty());
    Ok(())
}

/// The table has changed since the statement was prepared.
pub async fn stale_prepared_statement_is_replaced(fixture: &mut Fixture) -> Result<()> {
    fixture
        .raw("DROP TABLE IF EXISTS shape; CREATE TABLE shape (a int); INSERT INTO shape VALUES (1)")
        .await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("SELECT * FROM shape", &[]).await?;
    branch.decide(jeton_etx::Outcome::Abort).await?;
    fixture.raw("ALTER TABLE shape ADD COLUMN b int").await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    let failed = branch.execute("SELECT * FROM shape", &[]).await;
    ensure!(matches!(failed, Err(ResourceError::Transient { .. })), "{failed:?}");
    branch.decide(jeton_etx::Outcome::Abort).await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    ensure!(branch.execute("SELECT * FROM shape", &[]).await?.rows[0].len() == 2);
    branch.decide(jeton_etx::Outcome::Abort).await?;
    Ok(())
}

pub async fn wrong_setup_is_reported_with_remedy(fixture: &mut Fixture) -> Result<()> {
    let Server::Postgres(server) = &mut fixture.server else { anyhow::bail!("another engine") };
    let address = server.address();
    let mut fails = Vec::new();
    let url = format!("postgresql://nobody@{address}/postgres");
    fails.push((Postgres::new(&url, settings())?.ensure_schema().await, "role"));
    super::fixture::raw(&fixture.server, "CREATE ROLE guest LOGIN").await?;
    let url = format!("postgresql://guest@{address}/postgres");
    fails.push((Postgres::new(&url, settings())?.ensure_schema().await, "grant"));
    let Server::Postgres(server) = &mut fixture.server else { anyhow::bail!("another engine") };
    server.set("max_prepared_transactions", "0");
    server.restart()?;
    fails
        .push((Postgres::new(&server.url(), settings())?.ensure_schema().await, "max_prepared_transactions"));
    let mut branch = Postgres::new(&server.url(), settings())?.begin(attempt()).await?;
    branch.execute("INSERT INTO account VALUES (-1, 0)", &[]).await?;
    expect_vote!(branch, Vote::No(ResourceError::Setup { .. }));
    server.set("max_prepared_transactions", "200");
    server.restart()?;
    for (result, label) in fails {
        let Err(ResourceError::Setup { remedy, .. }) = &result else { anyhow::bail!("{label}: {result:?}") };
        ensure!(remedy.contains(label), "{remedy}");
    }
    ensure!(matches!(
        Postgres::new("nonsense", Settings::new("x", 1, 1)).err(),
        Some(ResourceError::Setup { .. })
    ));
    let warnings =
        Postgres::new(&server.url(), Settings { branches_max: 500, ..settings() })?.ensure_schema().await?;
    ensure!(warnings.iter().any(|warning| warning.contains("max_prepared_transactions")), "{warnings:?}");
    Ok(())
}
