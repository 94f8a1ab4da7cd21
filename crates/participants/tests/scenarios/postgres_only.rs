//! What only PostgreSQL does.

use anyhow::{Result, ensure};
use jeton_etx::{Resource, ResourceError, Value, Vote};
use jeton_participants::{Postgres, Settings};

use super::fixture::{Fixture, Server, attempt, settings};

pub async fn a_branch_that_changed_nothing_is_over(fixture: &mut Fixture) -> Result<()> {
    let account = fixture.account().await?;
    for statement in
        ["SELECT n FROM account WHERE id = $1", "UPDATE account SET n = 1 WHERE id = $1 AND n = 77"]
    {
        let mut branch = fixture.own.begin(attempt()).await?;
        branch.execute(statement, &[Value::Integer(account)]).await?;
        let vote = branch.vote().await;
        ensure!(matches!(vote, Vote::Unchanged), "it votes {vote:?}");
        branch.decide(jeton_etx::Outcome::Commit).await?;
    }
    // A function that writes is no reader.
    fixture
        .raw(&format!(
            "CREATE OR REPLACE FUNCTION deposit() RETURNS int LANGUAGE sql AS \
             'UPDATE account SET n = n + 1 WHERE id = {account} RETURNING n'"
        ))
        .await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("SELECT deposit()", &[]).await?;
    ensure!(matches!(branch.vote().await, Vote::Yes));
    branch.decide(jeton_etx::Outcome::Commit).await?;
    fixture.expect_balance(account, 1).await
}

/// A branch is begun in the same breath as its first statement is executed. Should it not begin, the statement must not be one by itself: outside of a branch the session
/// does not write.
pub async fn a_session_writes_nothing_outside_of_its_branch(fixture: &mut Fixture) -> Result<()> {
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

/// What is checked at the end only fails the vote, whatever its code; also that by which we see that nothing changed.
pub async fn a_check_at_the_end_fails_the_vote(fixture: &mut Fixture) -> Result<()> {
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
    let vote = branch.vote().await;
    ensure!(matches!(vote, Vote::No(ResourceError::Statement { .. })), "it votes {vote:?}");
    branch.decide(jeton_etx::Outcome::Abort).await?;
    ensure!(fixture.raw("SELECT 1 FROM checked").await?.is_empty());
    Ok(())
}

/// A table that changed since the statement was prepared.
pub async fn a_stale_statement_is_prepared_again(fixture: &mut Fixture) -> Result<()> {
    fixture
        .raw("DROP TABLE IF EXISTS shape; CREATE TABLE shape (a int); INSERT INTO shape VALUES (1)")
        .await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    branch.execute("SELECT * FROM shape", &[]).await?;
    branch.decide(jeton_etx::Outcome::Abort).await?;
    fixture.raw("ALTER TABLE shape ADD COLUMN b int").await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    let failed = branch.execute("SELECT * FROM shape", &[]).await;
    ensure!(matches!(failed, Err(ResourceError::Passing { .. })), "{failed:?}");
    branch.decide(jeton_etx::Outcome::Abort).await?;
    let mut branch = fixture.own.begin(attempt()).await?;
    ensure!(branch.execute("SELECT * FROM shape", &[]).await?.rows[0].len() == 2);
    branch.decide(jeton_etx::Outcome::Abort).await?;
    Ok(())
}

pub async fn a_wrong_setup_is_told_with_a_remedy(fixture: &mut Fixture) -> Result<()> {
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
    let vote = branch.vote().await;
    ensure!(matches!(vote, Vote::No(ResourceError::Setup { .. })), "it votes {vote:?}");
    server.set("max_prepared_transactions", "200");
    server.restart()?;
    for (result, word) in fails {
        let Err(ResourceError::Setup { remedy, .. }) = &result else { anyhow::bail!("{word}: {result:?}") };
        ensure!(remedy.contains(word), "{remedy}");
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
