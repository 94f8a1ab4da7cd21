//! Transfers between a real PostgreSQL and a real MariaDB, by three servers that are killed in between.
//!
//! The servers are in this process, each on a runtime of its own. Dropping the runtime kills a server in the
//! middle of its work, with all its connections.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod bank;
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bank::{ACCOUNTS, Bank, Transfer};
use cluster::{Client, Cluster};
use jeton_etx::{ClientOutcome, ProcedureResult};

/// Limit until everything is resolved after the last fault.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn transfers_take_effect_once_while_servers_are_killed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bank = Bank::open(&runtime);
    let cluster = Arc::new(Cluster::start(&bank, 3));

    // Sequentially: a retry gets the same answer, and a refusal is an answer.
    runtime.block_on(async {
        let mut client = Client::new(&cluster);
        let transfer = Transfer { from: 0, to: 1, amount: 10 };
        let id = client.mint();
        let first = client.ask(id, transfer, true).await;
        assert_eq!(first, ClientOutcome::Answer(ProcedureResult::Done("990".into())));
        assert_eq!(client.ask(id, transfer, false).await, first, "a retry");
        assert_eq!(client.ask(id, transfer, true).await, first, "a retry that claims to be the first send");
        let other = client.ask(id, Transfer { amount: 11, ..transfer }, false).await;
        assert_eq!(other, ClientOutcome::Mismatch);
        let overdraft = client.mint();
        let refused = client.ask(overdraft, Transfer { amount: 5_000, ..transfer }, true).await;
        assert!(matches!(refused, ClientOutcome::Answer(ProcedureResult::Refused(_))), "{refused:?}");
        assert_eq!(client.ask(overdraft, Transfer { amount: 5_000, ..transfer }, false).await, refused);
        assert_eq!(bank.ledgers().await, [vec![id], vec![id]]);
        bank.clear_ledgers().await;
    });

    // No action of a server may panic unnoticed: the other servers would recover its branches.
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, as_before) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        counted.fetch_add(1, Ordering::Relaxed);
        as_before(panic);
    }));

    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6_u32)
        .map(|number| {
            let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
            runtime.spawn(async move {
                let mut client = Client::new(&cluster);
                let mut done = Vec::new();
                let mut slowest = Duration::ZERO;
                let mut turn = number;
                while !stop.load(Ordering::Relaxed) {
                    turn = turn.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                    let from = (turn >> 8) % ACCOUNTS;
                    let to = (turn >> 16) % ACCOUNTS;
                    let transfer = Transfer { from, to, amount: i64::from(turn >> 28) + 1 };
                    let id = client.mint();
                    let begun = Instant::now();
                    match client.ask(id, transfer, true).await {
                        ClientOutcome::Answer(ProcedureResult::Done(_)) => done.push(id),
                        ClientOutcome::Answer(ProcedureResult::Refused(_)) => {}
                        other => panic!("{other:?}"),
                    }
                    slowest = slowest.max(begun.elapsed());
                }
                (done, slowest)
            })
        })
        .collect();

    let begun = Instant::now();
    let mut turn = 1_usize;
    while begun.elapsed() < Duration::from_secs(12) {
        std::thread::sleep(Duration::from_millis(400));
        cluster.kill(turn % 3);
        std::thread::sleep(Duration::from_millis(200));
        cluster.restart(&bank, turn % 3);
        turn += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    let mut slowest = Duration::ZERO;
    for client in clients {
        let (own, took) = runtime.block_on(client).expect("a client is answered always");
        done.extend(own);
        slowest = slowest.max(took);
    }
    let rested = Instant::now();
    runtime.block_on(async {
        while bank.prepared().await > 0 {
            assert!(rested.elapsed() < RECOVERY_LIMIT, "branches are left prepared");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        done.sort_unstable();
        assert_eq!(bank.total().await, i64::from(ACCOUNTS) * 2 * 1_000, "money is lost or made");
        let ledgers = bank.ledgers().await;
        assert!(
            ledgers[0] == done,
            "PostgreSQL has {} transfers, {} were answered",
            ledgers[0].len(),
            done.len()
        );
        assert!(
            ledgers[1] == done,
            "MariaDB has {} transfers, {} were answered",
            ledgers[1].len(),
            done.len()
        );
    });
    eprintln!(
        "{} transfers, {turn} kills, slowest answer {slowest:?}, at rest after {:?}",
        done.len(),
        rested.elapsed()
    );
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked");
    assert!(done.len() > 100);
}
