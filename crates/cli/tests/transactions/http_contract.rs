//! The contract over HTTP, and the commands that ask for transactions.

use serde_json::json;

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::{Answer, ask, id, post};
use crate::program::until;

fn transfer(cluster: &Cluster, id: &str, account: i64, amount: i64) -> Answer {
    let parameters = json!({"from": account, "to": account, "amount": amount}).to_string();
    post(cluster.address(), "transfer", id, &[], &parameters)
}

pub fn a_retry_of_a_transfer_returns_the_same_bytes(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup::default());
    let (account, done, refused) = (bank.account(), id(0), id(0));

    let parameters = json!({"from": account, "to": account, "amount": 40}).to_string();
    let first = post(cluster.address(), "transfer", &done, &[("jeton-first-time", "true")], &parameters);
    assert_eq!(first.status, 200, "{first:?}");
    let expected = json!({"id": done, "outcome": "done", "result": {"amount": 40, "left": 60}});
    assert_eq!(first.json(), expected);
    assert_eq!(bank.balances(account), (60, 140));

    // A retry, also with other JSON or marked as the first attempt, gets the same bytes and moves nothing.
    assert_eq!(transfer(&cluster, &done, account, 40), first);
    let otherwise = format!("{{ \"to\": {account}, \"amount\": 40, \"from\": {account} }}");
    let numbered = format!("{done}:0");
    let again = post(cluster.address(), "transfer", &numbered, &[("jeton-first-time", "true")], &otherwise);
    assert_eq!(again, first);
    assert_eq!(bank.balances(account), (60, 140));

    // A refusal is a permanent result.
    let answer = transfer(&cluster, &refused, account, 61);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"id": refused, "outcome": "refused", "reason": "not enough money"}));
    bank.ask_postgres(&format!("UPDATE account SET balance = 1000 WHERE id = {account}"));
    assert_eq!(transfer(&cluster, &refused, account, 61), answer);
    assert_eq!(bank.balances(account), (1000, 140));

    // In one database, which is also the decision store.
    let deposit = || {
        let parameters = json!({"to": account, "amount": 5}).to_string();
        post(cluster.address(), "deposit", &format!("{done}:9"), &[], &parameters)
    };
    let first = deposit();
    assert_eq!(first.json()["result"], json!({"now": 1005}), "{first:?}");
    assert_eq!(deposit(), first);
    assert_eq!(bank.balances(account), (1005, 140));
    assert_eq!(bank.prepared(cluster.number), 0);
}

pub fn invalid_requests_are_rejected(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup::default());
    let (account, used) = (bank.account(), id(0));
    assert_eq!(transfer(&cluster, &used, account, 1).status, 200);
    let problem = |procedure: &str, id: &str, parameters: &str| {
        let answer = post(cluster.address(), procedure, id, &[], parameters);
        (answer.status, answer.problem())
    };
    let good = json!({"from": account, "to": account, "amount": 40}).to_string();
    let is = |status, kind: &str| (status, kind.to_owned());
    // The same id with other parameters, and with another procedure.
    assert_eq!(problem("transfer", &used, &good), is(422, "id-mismatch"));
    assert_eq!(problem("slow", &used, &json!({"account": account}).to_string()), is(422, "id-mismatch"));
    assert_eq!(problem("transfer", &id(0), r#"{"from": 1, "to": 2}"#), is(400, "bad-parameters"));
    assert_eq!(
        problem("transfer", &id(0), r#"{"from": 1, "to": 2, "amount": 0}"#),
        is(400, "bad-parameters")
    );
    assert_eq!(problem("transfer", &id(0), "[1]"), is(400, "bad-json"));
    assert_eq!(problem("embezzle", &id(0), &good), is(404, "unknown-procedure"));
    assert_eq!(problem("transfer", &id(25 * 3600), &good), is(410, "id-expired"));
    assert_eq!(problem("transfer", &id(-3600), &good), is(400, "id-from-future"));
    assert_eq!(problem("transfer", "7f9c24e8-3b12-4fef-91e0-5d7a0c7b6e1f", &good), is(400, "id-invalid"));
    let without = ask(cluster.address(), "POST", "/v1/transactions/transfer", &[], &good).unwrap();
    assert_eq!((without.status, without.problem()), is(400, "id-required"));
    let ahead = [("jeton-acknowledged", "0")];
    let answer = post(cluster.address(), "transfer", &id(0), &ahead, &good);
    assert_eq!((answer.status, answer.problem()), is(400, "bad-request"));
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));
}

pub fn acknowledged_outcomes_are_removed(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup::default());
    let (account, session) = (bank.account(), id(0));
    let parameters = json!({"from": account, "to": account, "amount": 1}).to_string();
    let number = |number: u32, headers: &[(&str, &str)]| {
        post(cluster.address(), "transfer", &format!("{session}:{number}"), headers, &parameters)
    };
    assert_eq!(number(0, &[]).status, 200);
    assert_eq!(number(1, &[]).status, 200);
    assert_eq!(number(2, &[("jeton-acknowledged", "0")]).status, 200);
    // The outcome is removed after the response is sent.
    until("the acknowledged outcome is removed", || number(0, &[]).status == 410);
    assert_eq!(number(0, &[("jeton-first-time", "true")]).problem(), "id-expired");
    assert_eq!(number(1, &[]).status, 200, "it was not acknowledged");
    assert_eq!(bank.balances(account), (OPENING - 3, OPENING + 3));
    let shown = cluster.must(&["tx", "show", &format!("{session}:0")]);
    assert!(shown.contains("forgotten"), "{shown}");
}

pub fn expired_transactions_are_removed_everywhere(bank: &Bank) {
    let setup = Setup { registers: "postgres", more: "window = \"3s\"", ..Setup::default() };
    let cluster = Cluster::start(bank, &setup);
    let (account, transfer, deposit) = (bank.account(), id(0), id(0));
    let (from, to) = (format!("from={account}"), format!("to={account}"));
    cluster.must(&["tx", "run", "transfer", &from, &to, "amount=40", "--id", &transfer]);
    cluster.must(&["tx", "run", "deposit", &to, "amount=1", "--id", &deposit]);
    let number = cluster.number;
    let marks = format!("SELECT gid FROM etx_commit_marker WHERE gid LIKE 'etx1:{number:08x}%'");
    let decisions = format!("SELECT attempt FROM etx_decision WHERE cluster = {number}");
    let register = format!("SELECT slot FROM jeton_register WHERE log = '{transfer}'");
    let left = || {
        let counts = [&marks, &decisions].map(|sql| bank.ask_postgres(sql).len());
        let registers = bank.ask_postgres_at(&bank.registers(number), &register).len();
        (counts, registers, bank.ask_mariadb(&marks).len())
    };
    until("everything is removed", || left() == ([0; 2], 0, 0));
    let refused = cluster.run(&["tx", "run", "transfer", &from, &to, "amount=40", "--id", &transfer]);
    assert!(refused.code == Some(1) && refused.err.contains("older than the window"), "{}", refused.err);
    assert_eq!(bank.balances(account), (OPENING - 39, OPENING + 40));
}

pub fn tx_commands_run_show_and_list(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup::default());
    let (account, id) = (bank.account(), id(0));
    let (from, to) = (format!("from={account}"), format!("to={account}"));
    let command = ["tx", "run", "transfer", &from, &to, "amount=40", "--id", &id];
    for _ in 0..2 {
        assert_eq!(cluster.must(&command), "{\"amount\":40,\"left\":60}\n");
    }
    assert_eq!(bank.balances(account), (60, 140));
    let shown = cluster.must(&["tx", "show", &id]);
    for word in [
        "completed",
        "result     done: {\"amount\":40,\"left\":60}",
        "attempt 1  commit, by server 1",
        "decision store: registers",
    ] {
        assert!(shown.contains(word), "{shown}");
    }
    let refused = cluster.run(&["tx", "run", "transfer", &from, &to, "amount=4000"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    assert!(refused.err.contains("id 0") && refused.err.contains("not enough money"), "{}", refused.err);
    let wrong = cluster.run(&["tx", "run", "transfer", &from, &to, "amount=many"]);
    assert!(wrong.err.contains("amount") && wrong.err.contains("fix: "), "{}", wrong.err);
    assert_eq!(cluster.must(&["tx", "list"]), "Nothing is in doubt.\n");
    assert_eq!(cluster.must(&["tx", "list", "--json"]), "{\"branches\":[],\"unreachable\":[]}\n");
}
