//! Failover: a server is killed during a transaction, and another returns the one result.

use std::time::Duration;

use jeton_client::ErrorCode;
use jeton_client::transactions::{Options, Outcome, Transactions};
use serde_json::json;

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::id;
use crate::in_doubt::leave_behind;
use crate::program::until;

fn client(cluster: &Cluster) -> Transactions {
    let widen_after = Duration::from_millis(200);
    Transactions::new(Options { widen_after, ..Options::to(cluster.urls()) }).unwrap()
}

/// Number of sleeping sessions in PostgreSQL.
fn sleepers(bank: &Bank) -> usize {
    let sql = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%AS slept FROM pg_sleep%' AND pid <> pg_backend_pid()";
    bank.ask_postgres(sql).len()
}

pub fn another_server_returns_the_one_result(bank: &Bank) {
    let setup = Setup { servers: 3, registers: "postgres", ..Setup::default() };
    let mut cluster = Cluster::start(bank, &setup);
    let account = bank.account();
    let transactions = client(&cluster);
    let session = transactions.session();

    let issue = session.execute("slow", &json!({"account": account}));
    let id = issue.id().clone();
    let asking = bank.runtime.spawn(issue.into_future());
    until("a server is executing", || sleepers(bank) == 1);
    cluster.kill(0);
    let outcome = bank.runtime.block_on(asking).unwrap();
    assert_eq!(outcome, Ok(Outcome::Done(json!({"left": OPENING - 1}))));
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));

    // The remaining servers return the same result, and reject another request under the same id.
    let again = transactions.execute_with_id(id.clone(), "slow", &json!({"account": account}));
    assert_eq!(bank.runtime.block_on(again.into_future()), outcome);
    let other = transactions.execute_with_id(id, "slow", &json!({"account": account + 1}));
    let error = bank.runtime.block_on(other.into_future()).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::IdMismatch));

    let next = session.execute("transfer", &json!({"from": account, "to": account, "amount": 9}));
    let expected = Outcome::Done(json!({"amount": 9, "left": OPENING - 10}));
    assert_eq!(bank.runtime.block_on(next.into_future()), Ok(expected));
    assert_eq!(bank.balances(account), (OPENING - 10, OPENING + 10));
    // The other servers resolve the branches of the killed one.
    until("nothing is prepared", || bank.prepared(cluster.number) == 0);
}

pub fn recovery_ignores_acknowledged_requests(bank: &Bank) {
    let more = "recovery_interval = \"1ms\"";
    let setup = Setup { servers: 2, registers: "postgres", more, ..Setup::default() };
    let cluster = Cluster::start(bank, &setup);
    let account = bank.account();
    let session = client(&cluster).session();
    // Each request acknowledges the previous one, while recovery on the other server may read it.
    for _ in 0..60 {
        let issue = session.execute("transfer", &json!({"from": account, "to": account, "amount": 1}));
        assert!(bank.runtime.block_on(issue.into_future()).unwrap().is_done());
    }
    assert_eq!(bank.balances(account), (OPENING - 60, OPENING + 60));
    for log in cluster.logs() {
        assert!(!log.contains("ended against the decision"), "{log}");
    }
    // Recovery still runs on both.
    leave_behind(bank, bank.cluster(cluster.number), &id(0), account);
    until("the branch in doubt is resolved", || bank.prepared(cluster.number) == 0);
}

pub fn a_transfer_with_raft(bank: &Bank) {
    transfer_by_raft(bank, 3, "");
}

pub fn a_transfer_with_raft_in_memory(bank: &Bank) {
    transfer_by_raft(bank, 5, "raft_in_memory = true");
}

fn transfer_by_raft(bank: &Bank, servers: usize, more: &str) {
    let cluster = Cluster::start(bank, &Setup { servers, registers: "raft", more, ..Setup::default() });
    let account = bank.account();
    let session = client(&cluster).session();
    let parameters = json!({"from": account, "to": account, "amount": 40});
    let issue = session.execute("transfer", &parameters);
    let id = issue.id().clone();
    let expected = Ok(Outcome::Done(json!({"amount": 40, "left": OPENING - 40})));
    assert_eq!(bank.runtime.block_on(issue.into_future()), expected);
    for url in cluster.urls() {
        let one = Transactions::to([url]).unwrap();
        let again = one.execute_with_id(id.clone(), "transfer", &parameters);
        assert_eq!(bank.runtime.block_on(again.into_future()), expected);
    }
    assert_eq!(bank.balances(account), (OPENING - 40, OPENING + 40));
}
