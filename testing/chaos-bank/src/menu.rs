//! The interactive menu of faults.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::audit;
use crate::cluster::Cluster;
use crate::workload::Workload;

const MENU: &str = "\
Kill something:
  1 2 3   a server             s1 s2 s3   pause a server            w   resume and restart all
  p m     PostgreSQL, MariaDB  cp cm      cut connections to one    d   branches in doubt
  q       stop, and audit the databases";

/// Offers faults until the user quits.
pub async fn offer(cluster: &mut Cluster, tellers: &Workload) -> Result<()> {
    println!("{MENU}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut tick = tokio::time::interval(Duration::from_secs(2));
    let mut before = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => match line.trim() {
                    "q" => return Ok(()),
                    chosen => perform(cluster, chosen).await?,
                },
                // End of input.
                None => return Ok(()),
            },
            _ = tick.tick() => {
                let answered = tellers.answered.load(Ordering::Relaxed);
                println!("{answered} answered, {} a second; {}", (answered - before) / 2, states(cluster));
                before = answered;
            }
        }
    }
}

/// The state of all processes.
fn states(cluster: &mut Cluster) -> String {
    let word = |is_up| if is_up { "up" } else { "down" };
    let servers = cluster.servers.iter_mut().map(|server| {
        let state = word(server.is_running());
        format!("{}:{state}", server.number)
    });
    let servers: Vec<String> = servers.collect();
    let postgres = word(cluster.postgres.process().is_some());
    let mariadb = word(cluster.mariadb.process().is_some());
    format!("servers {}; PostgreSQL {postgres}, MariaDB {mariadb}", servers.join(" "))
}

async fn perform(cluster: &mut Cluster, chosen: &str) -> Result<()> {
    match chosen {
        "1" | "2" | "3" | "s1" | "s2" | "s3" => {
            let number = usize::from(chosen.as_bytes()[chosen.len() - 1] - b'1');
            match chosen.len() {
                1 => cluster.servers[number].kill(),
                _ => cluster.servers[number].pause(),
            }
        }
        "p" => cluster.postgres.kill(),
        "m" => cluster.mariadb.kill(),
        "cp" => cluster.networks[0].cut(),
        "cm" => cluster.networks[1].cut(),
        "w" => cluster.repair()?,
        "d" => match audit::prepared(cluster).await {
            Ok(prepared) => println!("{} branches are prepared\n{}", prepared.len(), prepared.join("\n")),
            Err(why) => println!("a database is not reachable: {why}"),
        },
        _ => println!("{MENU}"),
    }
    Ok(())
}
