//! Measures failover: the time from the kill of a server, at each failpoint or as Raft leader, to the
//! response of another server.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::http_client;
use crate::workload::{Transfer, issue_once, new_session};
use jeton_testkit::Rng;

/// The failpoints of every transfer between the databases.
const POINTS: [&str; 14] = [
    "taken",
    "begun",
    "executed",
    "computed",
    "voting-0",
    "voting-1",
    "voted-0",
    "voted-1",
    "proposing",
    "proposed",
    "committing-0",
    "committing-1",
    "committed-0",
    "committed-1",
];

/// Measurements per failpoint.
const TIMES: usize = 5;

/// Kills of a Raft leader, and the latest moment of a kill within a transfer, in milliseconds.
const LEADERS: usize = 20;
const INTO_MAX: u64 = 12;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures and prints. With registers that have a leader, its death is measured too.
pub async fn measure(cluster: &mut Cluster, are_led: bool) -> Result<()> {
    let mut rng = Rng::new(1);
    let mut all = Vec::new();
    println!("server killed at     time until another responds, in ms");
    for point in POINTS {
        let mut waits = Vec::new();
        for _ in 0..TIMES {
            waits.push(once(cluster, point, &mut rng).await?);
        }
        let times: Vec<String> =
            waits.iter().map(|wait| format!("{:>5.0}", wait.as_secs_f64() * 1000.0)).collect();
        println!("{point:<20} {}", times.join(" "));
        all.extend(waits);
    }
    all.sort_unstable();
    let (half, most) = (all[all.len() / 2], all[all.len() - 1]);
    println!(
        "{} kills: median {half:.1?}, maximum {most:.1?}; a server whose port is closed is suspected at once",
        all.len()
    );
    if !are_led {
        return Ok(());
    }
    let mut leaders = Vec::new();
    while leaders.len() < LEADERS {
        leaders.extend(kill_leader(cluster, &mut rng).await?);
    }
    leaders.sort_unstable();
    let times: Vec<String> =
        leaders.iter().map(|wait| format!("{:.0}", wait.as_secs_f64() * 1000.0)).collect();
    println!("the leader of Raft   {}", times.join(" "));
    Ok(())
}

/// Kills the server at a failpoint.
async fn once(cluster: &mut Cluster, point: &str, rng: &mut Rng) -> Result<Duration> {
    cluster.servers[0].start(Some(&format!("{point}:0:kill:0")))?;
    cluster.servers[0].await_ready(TIMEOUT).await?;
    let (urls, transfer) = (cluster.urls(), transfer(rng));
    if let Ok((200, answer)) = issue_once(&urls[0], &transfer, true).await {
        bail!("the server did not die at {point}: {answer}");
    }
    time_to_response(&urls[1..], &transfer).await
}

/// Kills the leader of the registers during a transfer. `None` if the transfer was faster.
async fn kill_leader(cluster: &mut Cluster, rng: &mut Rng) -> Result<Option<Duration>> {
    cluster.repair()?;
    for server in &mut cluster.servers {
        server.await_ready(TIMEOUT).await?;
    }
    let leader = leader(cluster).await?;
    let (mut urls, transfer) = (cluster.urls(), transfer(rng));
    let response = tokio::spawn({
        let (url, transfer) = (urls.remove(leader), transfer.clone());
        async move { issue_once(&url, &transfer, true).await }
    });
    tokio::time::sleep(Duration::from_millis(rng.below(INTO_MAX))).await;
    cluster.servers[leader].kill();
    match response.await? {
        Ok((200, _)) => Ok(None),
        _ => time_to_response(&urls, &transfer).await.map(Some),
    }
}

/// The index of the server that all servers report as leader.
async fn leader(cluster: &Cluster) -> Result<usize> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        let mut named = Vec::new();
        for url in cluster.urls() {
            let (_, text) = http_client::get(&format!("{url}/metrics")).await?;
            let text = String::from_utf8_lossy(&text);
            let line = text.lines().find_map(|line| line.strip_prefix("jeton_registers_leader "));
            named.push(line.and_then(|number| number.parse().ok()).unwrap_or(0));
        }
        if named[0] > 0 && named.iter().all(|number| *number == named[0]) {
            return Ok(named[0] - 1);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the registers have no leader")
}

fn transfer(rng: &mut Rng) -> Transfer {
    let account = rng.below(100);
    let body = json!({ "from": account, "to": account, "amount": 1 });
    Transfer::new(new_session(rng), 0, "to_savings", &body, 1)
}

/// The time until one of these servers answers.
async fn time_to_response(urls: &[String], transfer: &Transfer) -> Result<Duration> {
    let died = Instant::now();
    // As clients do: send to all other servers at once, and take the first answer.
    while died.elapsed() < TIMEOUT {
        let mut responses = JoinSet::new();
        for url in urls {
            let (url, transfer) = (url.clone(), transfer.clone());
            responses.spawn(async move { issue_once(&url, &transfer, false).await });
        }
        while let Some(answer) = responses.join_next().await {
            if matches!(answer?, Ok((200, _))) {
                return Ok(died.elapsed());
            }
        }
    }
    bail!("no server responds after a kill")
}
