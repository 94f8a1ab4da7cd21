//! The audit: compares the databases with the answers that the tellers got.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::cluster::Cluster;
use crate::http_client;
use crate::workload::{ACCOUNTS, OPENING, PROCEDURES, Transfer, Workload, issue_once};

/// Limit after the last fault for all answers, and for the end of all prepared branches.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);

/// Interval of checks for prepared branches. MariaDB refreshes `innodb_trx` only if it was not read for 0.1
/// s.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Number of answers that are requested again at the end.
const REPLAYS: usize = 200;

/// Answers of older sessions are not requested again, because they may be forgotten.
const REPLAY_AGE_MAX: Duration = Duration::from_secs(30);

/// The contents of the databases.
struct Found {
    sum: i64,
    /// The amounts per request in the ledger of PostgreSQL and in that of MariaDB.
    ledgers: [BTreeMap<String, Vec<i64>>; 2],
    /// Number and sum of the transfers between the databases, as counted in Jeton.
    audit: [i64; 2],
}

/// Waits until the tellers have their answers and nothing is prepared, then audits the databases. Returns the
/// violations.
pub async fn settle(
    cluster: &mut Cluster,
    tellers: &Workload,
    mut running: JoinSet<()>,
    repaired: Instant,
) -> Result<Vec<String>> {
    tellers.stop();
    let all_answered = async { while running.join_next().await.is_some() {} };
    let left = RECOVERY_LIMIT.saturating_sub(repaired.elapsed());
    let is_answered = tokio::time::timeout(left, all_answered).await.is_ok();
    let answered = repaired.elapsed();
    let mut faults = Vec::new();
    let journal = tellers.journal();
    if !is_answered {
        for transfer in journal.iter().filter(|transfer| transfer.answer.is_none()) {
            faults.push(format!("{} {} was never answered", transfer.procedure, transfer.key()));
        }
    }
    loop {
        let prepared = prepared(cluster).await?;
        if prepared.is_empty() {
            break;
        }
        if repaired.elapsed() > RECOVERY_LIMIT {
            cluster.note(&innodb(cluster).await?);
            faults.extend(prepared.into_iter().map(|branch| format!("{branch} is still prepared")));
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let clean = repaired.elapsed();
    let found = read(cluster).await?;
    compare(&journal, &found, &mut faults);
    // All servers must return the answers, also those that started last.
    if let Err(why) = cluster.await_ready(RECOVERY_LIMIT.saturating_sub(repaired.elapsed())).await {
        faults.push(why.to_string());
    }
    let replayed = replay(&journal, &cluster.urls(), &mut faults).await;
    // The other servers recover from a panic, so it shows only in the log.
    let panicked = cluster.servers.iter().filter(|server| server.has_panicked());
    faults.extend(panicked.map(|server| format!("server {} panicked; see its log", server.number)));
    let again = read(cluster).await?;
    if (again.sum, again.audit, &again.ledgers) != (found.sum, found.audit, &found.ledgers) {
        faults.push("retries have changed the databases".into());
    }
    print(&journal, answered, clean, replayed);
    Ok(faults)
}

fn compare(journal: &[Transfer], found: &Found, faults: &mut Vec<String>) {
    let opening = 2 * ACCOUNTS as i64 * OPENING;
    if found.sum != opening {
        faults.push(format!("the sum of all accounts was {opening} and is {}", found.sum));
    }
    let across = journal.iter().filter(|transfer| {
        transfer.procedure.ends_with("_savings") && transfer.procedure != "within_savings"
    });
    let across: Vec<i64> =
        across.filter(|transfer| transfer.is_done()).map(|transfer| transfer.amount).collect();
    let audit = [across.len() as i64, across.iter().sum()];
    if found.audit != audit {
        faults.push(format!(
            "Jeton has counted {:?} transfers and their sum, and there were {audit:?}",
            found.audit
        ));
    }
    let mut requested = BTreeMap::new();
    for transfer in journal {
        requested.insert(transfer.key(), transfer);
        let Some(answer) = &transfer.answer else { continue };
        let is_refusal = answer.contains("\"outcome\":\"refused\"");
        if !transfer.is_done() && !is_refusal {
            faults.push(format!("{} {} was answered: {answer}", transfer.procedure, transfer.key()));
        }
        let places = PROCEDURES.iter().find(|(name, ..)| *name == transfer.procedure);
        let in_both = places.map_or([false, false], |(_, postgres, mariadb)| [*postgres, *mariadb]);
        for ((ledger, is_there), place) in found.ledgers.iter().zip(in_both).zip(["PostgreSQL", "MariaDB"]) {
            let rows = ledger.get(&transfer.key()).map_or(&[][..], Vec::as_slice);
            let expected: &[i64] = if is_there && transfer.is_done() { &[transfer.amount] } else { &[] };
            if rows != expected {
                let (procedure, key) = (transfer.procedure, transfer.key());
                faults.push(format!(
                    "{procedure} {key}: {place} has {rows:?} and should have {expected:?}; answered: {answer}"
                ));
            }
        }
    }
    for (ledger, place) in found.ledgers.iter().zip(["PostgreSQL", "MariaDB"]) {
        for key in ledger.keys().filter(|key| !requested.contains_key(*key)) {
            faults.push(format!("{place} has {key}, which no teller requested"));
        }
    }
}

/// Requests recent answers again: they must be identical. Returns their number.
async fn replay(journal: &[Transfer], urls: &[String], faults: &mut Vec<String>) -> usize {
    let recent = journal.iter().rev().filter(|transfer| {
        !transfer.is_acknowledged && transfer.answer.is_some() && transfer.sent.elapsed() < REPLAY_AGE_MAX
    });
    let mut replayed = 0;
    for (transfer, url) in recent.take(REPLAYS).zip(urls.iter().cycle()) {
        match issue_once(url, transfer, false).await {
            Ok((200, answer)) if Some(&answer) == transfer.answer.as_ref() => replayed += 1,
            other => {
                let retry = other.unwrap_or_else(|why| (0, format!("{why:#}")));
                faults.push(format!(
                    "{} was answered {:?}, and then {retry:?}",
                    transfer.key(),
                    transfer.answer
                ));
            }
        }
    }
    replayed
}

fn print(journal: &[Transfer], answered: Duration, clean: Duration, replayed: usize) {
    let mut times: Vec<Duration> = journal.iter().map(|transfer| transfer.took).collect();
    times.sort_unstable();
    let at = |part: f64| {
        times.get((times.len() as f64 * part) as usize).or(times.last()).copied().unwrap_or_default()
    };
    let done = journal.iter().filter(|transfer| transfer.is_done()).count();
    println!(
        "{} requests: {done} done, {} refused; median {:.1?}, p99 {:.1?}, maximum {:.1?}",
        journal.len(),
        journal.len() - done,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    println!(
        "after the last fault: all answered in {answered:.1?}, nothing prepared in {clean:.1?}; {replayed} identical replays"
    );
}

/// The prepared branches of both databases.
pub async fn prepared(cluster: &Cluster) -> Result<Vec<String>> {
    let (client, connection) = tokio_postgres::connect(&cluster.postgres.url(), NoTls).await?;
    tokio::spawn(connection);
    let rows = client.query("SELECT gid FROM pg_prepared_xacts", &[]).await?;
    let mut prepared: Vec<String> = rows.iter().map(|row| row.get::<_, String>(0)).collect();
    let mut client = mysql_async::Conn::from_url(cluster.mariadb.url()).await?;
    let rows: Vec<(u64, u64, u64, String)> = client.query("XA RECOVER").await?;
    prepared.extend(rows.into_iter().map(|(.., data)| data));
    // Branches that MariaDB has and does not list, with their locks.
    let lost: Vec<String> = client
        .query(
            "SELECT CONCAT('a branch that MariaDB does not list, ', trx_id, ' ', trx_state, ' since ', trx_started, ', with ',
                 trx_rows_locked, ' rows locked and ', trx_rows_modified, ' modified, ', COALESCE(trx_operation_state, 'at rest'))
             FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0",
        )
        .await?;
    prepared.extend(lost);
    client.disconnect().await?;
    let (status, listed) = http_client::get(&format!("{}/v1/branches", cluster.audit.url())).await?;
    anyhow::ensure!(status == 200, "Jeton does not list its branches: {status}");
    let listed: Value = serde_json::from_slice(&listed)?;
    let listed = listed["branches"].as_array().cloned().unwrap_or_default();
    prepared.extend(listed.iter().map(|branch| branch["branch"].to_string()));
    Ok(prepared)
}

/// MariaDB's report of its transactions, for diagnosis.
async fn innodb(cluster: &Cluster) -> Result<String> {
    let mut client = mysql_async::Conn::from_url(cluster.mariadb.url()).await?;
    let status: Option<(String, String, String)> = client.query_first("SHOW ENGINE INNODB STATUS").await?;
    client.disconnect().await?;
    Ok(status.map_or_else(String::new, |(.., status)| status))
}

async fn counted(cluster: &Cluster, counter: &str) -> Result<i64> {
    let (_, body) =
        http_client::get(&format!("{}/v1/tables/audit/counters/{counter}", cluster.audit.url())).await?;
    let body: Value = serde_json::from_slice(&body)?;
    body["value"].as_i64().with_context(|| format!("Jeton has no value of the counter {counter}: {body}"))
}

async fn read(cluster: &Cluster) -> Result<Found> {
    let (client, connection) = tokio_postgres::connect(&cluster.postgres.url(), NoTls).await?;
    tokio::spawn(connection);
    let sum: i64 = client.query_one("SELECT sum(balance)::bigint FROM account", &[]).await?.get(0);
    let mut postgres: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in client.query("SELECT request, amount FROM ledger", &[]).await? {
        postgres.entry(row.get(0)).or_default().push(row.get(1));
    }
    let mut client = mysql_async::Conn::from_url(cluster.mariadb.url()).await?;
    let savings: Option<i64> = client.query_first("SELECT CAST(SUM(balance) AS SIGNED) FROM account").await?;
    let mut mariadb: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let rows: Vec<(String, i64)> = client.query("SELECT request, amount FROM ledger").await?;
    for (request, amount) in rows {
        mariadb.entry(request).or_default().push(amount);
    }
    client.disconnect().await?;
    let audit = [counted(cluster, "transfers").await?, counted(cluster, "moved").await?];
    Ok(Found { sum: sum + savings.context("no savings")?, ledgers: [postgres, mariadb], audit })
}
