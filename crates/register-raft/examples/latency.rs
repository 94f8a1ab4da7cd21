//! Latency and throughput of writes with three members on this machine. Prints; checks nothing.
//!
//! `cargo run --release -p jeton-register-raft --example latency`

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use jeton_register::{Batch, LogId, Registers, Slot};
use jeton_register_raft::{Durability, Member, RaftRegisters, Secret, Settings};

const ALONE: u64 = 2000;
const WRITERS: u16 = 64;
const TIME: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for in_memory in [false, true] {
        let folder = tempfile::tempdir()?;
        let mut members = Vec::new();
        for id in 1..=3 {
            members.push(Member { id, address: TcpListener::bind("127.0.0.1:0")?.local_addr()? });
        }
        let mut cluster = Vec::new();
        for id in 1..=3 {
            let durability = match in_memory {
                true => Durability::Memory,
                false => Durability::Disk(folder.path().join(id.to_string())),
            };
            let secret = Secret::new("a secret of the benchmark");
            let settings = Settings::new(id, members.clone(), secret, durability);
            cluster.push(Arc::new(RaftRegisters::open(settings)?));
        }
        let leader = loop {
            match cluster[0].leader() {
                Some(leader) if cluster.iter().all(|member| member.is_voter()) => break leader,
                _ => thread::sleep(Duration::from_millis(10)),
            }
        };
        println!("{}", if in_memory { "memory" } else { "disk" });
        let follower = 1 + leader % 3;
        for (name, id, log) in [("leader", leader, 1), ("follower", follower, 2)] {
            let member = &cluster[id as usize - 1];
            let mut times: Vec<Duration> = (1..=ALONE).map(|slot| write(member, log, slot)).collect();
            times.sort();
            let at = |share: usize| times[times.len() * share / 100];
            println!("  one writer at a {name}: p50 {:?}, p99 {:?}", at(50), at(99));
        }
        for (name, first, count) in [("the leader", leader, 1), ("all members", 1, 3)] {
            let begin = Instant::now();
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let member = Arc::clone(&cluster[(first as usize - 1 + usize::from(writer) % count) % 3]);
                    let log = 100 * (count as u16) + writer;
                    thread::spawn(move || {
                        let mut times = Vec::new();
                        while begin.elapsed() < TIME {
                            times.push(write(&member, log, times.len() as u64 + 1));
                        }
                        times
                    })
                })
                .collect();
            let mut times = Vec::new();
            for writer in writers {
                times.extend(writer.join().map_err(|_| "a writer panicked")?);
            }
            times.sort();
            let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
            let at = |share: usize| times[times.len() * share / 100];
            println!("  {WRITERS} writers at {name}: {rate:.0} writes/s, p50 {:?}, p99 {:?}", at(50), at(99));
        }
    }
    Ok(())
}

/// The latency of one write of 100 bytes.
fn write(member: &RaftRegisters, log: u16, slot: u64) -> Duration {
    let begin = Instant::now();
    let mut batch = Batch::new();
    batch.push(LogId::partition(log), Slot(slot), &[7; 100]);
    let permit = member.admit(1, 100).expect("64 writes are within the limit");
    block_on(member.write(batch, permit)).expect("three members are running");
    begin.elapsed()
}
