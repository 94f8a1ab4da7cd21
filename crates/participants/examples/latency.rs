//! Latency of a branch compared with the same statement in a plain transaction, and in one that is only
//! prepared and committed.
//!
//! `cargo run --release -p jeton-participants --example latency [rounds]` prints medians of interleaved
//! rounds on real engines on this machine.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jeton_etx::{
    AttemptId, AttemptNumber, CoordinatorId, DecisionLocation, Outcome, RequestId, Resource, Value, Vote,
};
use jeton_participants::{MariaDb, Postgres, Settings};
use mysql_async::prelude::Queryable;

const PLAIN: &str = "plain transaction";
const HOME: &str = "branch, committed with its decision";
const BARE: &str = "prepared and committed, nothing else";
const VOTED: &str = "branch, voted and committed";

#[derive(Default)]
struct Times(Vec<(&'static str, Vec<Duration>)>);

impl Times {
    fn add(&mut self, who: &'static str, since: Instant) {
        let took = since.elapsed();
        match self.0.iter_mut().find(|(name, _)| *name == who) {
            Some((_, times)) => times.push(took),
            None => self.0.push((who, vec![took])),
        }
    }

    fn print(mut self, engine: &str) {
        for (who, times) in &mut self.0 {
            // The first tenth is warm-up.
            let mut times = times.split_off(times.len() / 10);
            times.sort_unstable();
            println!("{engine}: {who}: {:.3} ms", times[times.len() / 2].as_secs_f64() * 1e3);
        }
    }
}

fn attempt(number: u64, decision_location: DecisionLocation) -> AttemptId {
    let request = RequestId { session: 1 << 90 | u128::from(number), sequence: 1 };
    AttemptId {
        request,
        number: AttemptNumber::FIRST,
        coordinator: CoordinatorId { server: 1, incarnation: 1, work: number },
        decision_location,
    }
}

/// A round with a branch: with a decision, and with a vote.
async fn ours(resource: &dyn Resource, sql: &str, round: u64, times: &mut Times) -> Result<()> {
    let since = Instant::now();
    let mut branch = resource.begin(attempt(round * 2, DecisionLocation::Resource(0))).await?;
    branch.execute(sql, &[Value::Integer(1)]).await?;
    branch.commit_deciding(&[0; 100]).await?;
    times.add(HOME, since);
    let since = Instant::now();
    let mut branch = resource.begin(attempt(round * 2 + 1, DecisionLocation::Registers)).await?;
    branch.execute(sql, &[Value::Integer(1)]).await?;
    ensure!(matches!(branch.vote().await, Vote::Yes));
    branch.decide(Outcome::Commit).await?;
    times.add(VOTED, since);
    Ok(())
}

async fn postgres(rounds: u64) -> Result<()> {
    let folder = jeton_testbed::folder()?;
    let server = jeton_testbed::Postgres::start(folder.path(), &[])?;
    let resource = Postgres::new(&server.url(), Settings::new("postgres", 1, 0))?;
    resource.ensure_schema().await?;
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute("CREATE TABLE account (id int PRIMARY KEY, n int); INSERT INTO account VALUES (1, 0)")
        .await?;
    let sql = "UPDATE account SET n = n + 1 WHERE id = $1";
    let update = client.prepare(sql).await?;
    let mut times = Times::default();
    for round in 1..=rounds {
        let since = Instant::now();
        client.batch_execute("BEGIN").await?;
        client.execute(&update, &[&1]).await?;
        client.batch_execute("COMMIT").await?;
        times.add(PLAIN, since);
        let since = Instant::now();
        client.batch_execute("BEGIN").await?;
        client.execute(&update, &[&1]).await?;
        client.batch_execute(&format!("PREPARE TRANSACTION '{round}'")).await?;
        client.batch_execute(&format!("COMMIT PREPARED '{round}'")).await?;
        times.add(BARE, since);
        ours(&resource, sql, round, &mut times).await?;
    }
    times.print("PostgreSQL");
    Ok(())
}

async fn mariadb(binlog: bool, rounds: u64) -> Result<()> {
    let folder = jeton_testbed::folder()?;
    let server = jeton_testbed::MariaDb::start(folder.path(), binlog, &[])?;
    let resource = MariaDb::new(&server.url(), Settings::new("mariadb", 1, 0))?;
    resource.ensure_schema().await?;
    let options = mysql_async::OptsBuilder::from_opts(mysql_async::Opts::from_url(&server.url())?);
    let mut conn = mysql_async::Conn::new(options.prefer_socket(false)).await?;
    conn.query_drop("CREATE TABLE account (id int PRIMARY KEY, n int)").await?;
    conn.query_drop("INSERT INTO account VALUES (1, 0)").await?;
    let sql = "UPDATE account SET n = n + 1 WHERE id = ?";
    let mut times = Times::default();
    for round in 1..=rounds {
        let since = Instant::now();
        conn.query_drop("START TRANSACTION").await?;
        conn.exec_drop(sql, (1,)).await?;
        conn.query_drop("COMMIT").await?;
        times.add(PLAIN, since);
        let since = Instant::now();
        conn.query_drop(format!("XA START '{round}'")).await?;
        conn.exec_drop(sql, (1,)).await?;
        conn.query_drop(format!("XA END '{round}'; XA PREPARE '{round}'")).await?;
        conn.query_drop(format!("XA COMMIT '{round}'")).await?;
        times.add(BARE, since);
        ours(&resource, sql, round, &mut times).await?;
    }
    times.print(if binlog { "MariaDB with a binary log" } else { "MariaDB" });
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(2_000), |text| text.parse())?;
    postgres(rounds).await?;
    mariadb(false, rounds).await?;
    mariadb(true, rounds).await
}
