//! A database is stopped: requests use no attempts, and `jeton tx resolve` reports it.

use serde_json::{Value, json};

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::{ask, id, post};
use crate::in_doubt::leave_behind;

/// Executions during the outage: more than a request has attempts.
const EXECUTIONS: usize = 70;

pub fn a_stopped_database_uses_no_attempts(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup { more: "unavailable_timeout = \"1ms\"", ..Setup::default() });
    let (account, id) = (bank.account(), id(0));
    let parameters = json!({"from": account, "to": account, "amount": 1}).to_string();
    let transfer = || post(cluster.address(), "transfer", &id, &[], &parameters);

    let outage = bank.stop_mariadb();
    for execution in 0..EXECUTIONS {
        let answer = transfer();
        assert_eq!((answer.status, answer.problem().as_str()), (503, "not-ready"), "{execution}: {answer:?}");
        assert!(answer.json()["retry_after_seconds"].is_u64(), "{answer:?}");
    }
    drop(outage);
    let status = ask(cluster.address(), "GET", &format!("/v1/transactions/{id}"), &[], "").unwrap().json();
    assert_eq!((&status["state"], &status["tries"]), (&json!("undecided"), &json!([])), "{status}");

    let answer = transfer();
    assert_eq!(answer.json()["outcome"], "done", "{answer:?}");
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));
    let shown = cluster.must(&["tx", "show", &id]);
    assert!(shown.contains("attempt 1  commit"), "{shown}");
}

pub fn resolve_reports_unreachable_databases(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup { more: "recovery_interval = \"1h\"", ..Setup::default() });
    let (account, id) = (bank.account(), id(0));
    assert_eq!(leave_behind(bank, bank.cluster(cluster.number), &id, account), 2);

    let outage = bank.stop_mariadb();
    let run = cluster.run(&["tx", "resolve", &id, "--yes"]);
    assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
    assert!(run.out.starts_with("ledger: rolled back\nvault is unreachable: "), "{}", run.out);
    assert!(run.err.contains("vault is unreachable: "), "{}", run.err);
    let run = cluster.run(&["tx", "resolve", &id, "--yes", "--json"]);
    let resolved: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &resolved["branches"]), (Some(1), &json!([])), "{resolved}");
    assert_eq!(resolved["unreachable"][0]["database"], "vault", "{resolved}");
    drop(outage);

    assert_eq!(cluster.must(&["tx", "resolve", &id, "--yes"]), "vault: rolled back\n");
    assert_eq!(bank.prepared(cluster.number), 0);
    assert_eq!(bank.balances(account), (OPENING, OPENING));
}
