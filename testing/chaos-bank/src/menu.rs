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
  1 2 3   a server             s1 s2 s3   put a server to sleep     w   wake all, start what is dead
  p m     PostgreSQL, MariaDB  cp cm      cut connections to one    d   what is in doubt
  q       stop, and check the books";

/// Offers faults until the user quits.
pub async fn offer(world: &mut Cluster, tellers: &Workload) -> Result<()> {
    println!("{MENU}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut tick = tokio::time::interval(Duration::from_secs(2));
    let mut before = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => match line.trim() {
                    "q" => return Ok(()),
                    chosen => perform(world, chosen).await?,
                },
                // End of input.
                None => return Ok(()),
            },
            _ = tick.tick() => {
                let answered = tellers.answered.load(Ordering::Relaxed);
                println!("{answered} answered, {} a second; {}", (answered - before) / 2, states(world));
                before = answered;
            }
        }
    }
}

/// The state of all processes.
fn states(world: &mut Cluster) -> String {
    let word = |is_up| if is_up { "up" } else { "dead" };
    let servers = world.servers.iter_mut().map(|server| {
        let state = word(server.is_running());
        format!("{}:{state}", server.number)
    });
    let servers: Vec<String> = servers.collect();
    let postgres = word(world.postgres.process().is_some());
    let mariadb = word(world.mariadb.process().is_some());
    format!("servers {}; PostgreSQL {postgres}, MariaDB {mariadb}", servers.join(" "))
}

async fn perform(world: &mut Cluster, chosen: &str) -> Result<()> {
    match chosen {
        "1" | "2" | "3" | "s1" | "s2" | "s3" => {
            let number = usize::from(chosen.as_bytes()[chosen.len() - 1] - b'1');
            match chosen.len() {
                1 => world.servers[number].kill(),
                _ => world.servers[number].pause(),
            }
        }
        "p" => world.postgres.kill(),
        "m" => world.mariadb.kill(),
        "cp" => world.networks[0].cut(),
        "cm" => world.networks[1].cut(),
        "w" => world.mend()?,
        "d" => match audit::prepared(world).await {
            Ok(prepared) => println!("{} branches are prepared\n{}", prepared.len(), prepared.join("\n")),
            Err(why) => println!("a database cannot be asked: {why}"),
        },
        _ => println!("{MENU}"),
    }
    Ok(())
}
