//! Branches in doubt: `jeton tx list`, `show` and `resolve`.

use jeton_etx::{
    AttemptId, AttemptNumber, CoordinatorId, DecisionLocation, RequestId, Resource, Value, Vote,
};
use jeton_participants::{MariaDb, Postgres, Settings};
use serde_json::Value as Json;

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::id;

/// Prepares a branch in each database for a server that does not exist. Returns the number of yes votes:
/// recovery may abort a branch before its vote.
pub fn leave_behind(bank: &Bank, cluster: jeton_etx::Cluster, id: &str, account: i64) -> usize {
    leave_behind_of(9, bank, cluster, id, account)
}

/// Like `leave_behind`, for an earlier incarnation of a server.
pub fn leave_behind_of(
    server: u16,
    bank: &Bank,
    cluster: jeton_etx::Cluster,
    id: &str,
    account: i64,
) -> usize {
    let session = u128::from_str_radix(&id.replace('-', ""), 16).unwrap();
    let attempt = |work| AttemptId {
        request: RequestId { session, sequence: 0 },
        number: AttemptNumber::FIRST,
        coordinator: CoordinatorId { server, incarnation: 0xdead, work },
        decision_location: DecisionLocation::Registers,
    };
    bank.runtime.block_on(async {
        let postgres = Postgres::new(&bank.postgres.url(), Settings::new("ledger", cluster, 0)).unwrap();
        let mariadb = MariaDb::new(&bank.mariadb_url(), Settings::new("vault", cluster, 1)).unwrap();
        let databases: [(&dyn Resource, &str); 2] = [
            (&postgres, "UPDATE account SET balance = balance - 1 WHERE id = $1"),
            (&mariadb, "UPDATE account SET balance = balance + 1 WHERE id = ?"),
        ];
        let mut heard = 0;
        for ((database, sql), work) in databases.into_iter().zip(7..) {
            let mut branch = database.begin(attempt(work)).await.unwrap();
            branch.execute(sql, &[Value::Integer(account)]).await.unwrap();
            heard += usize::from(matches!(branch.vote().await, Vote::Yes));
        }
        heard
    })
}

pub fn a_branch_in_doubt_is_listed_and_resolved(bank: &Bank) {
    let setup = Setup { more: "recovery_interval = \"1h\"", ..Setup::default() };
    let cluster = Cluster::start(bank, &setup);
    let (account, id) = (bank.account(), id(0));
    assert_eq!(leave_behind(bank, bank.cluster(cluster.number), &id, account), 2);
    assert_eq!(bank.prepared(cluster.number), 2);

    let listed = cluster.must(&["tx", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    for (line, database) in lines[1..].iter().zip(["ledger", "vault"]) {
        for word in [database, &id, "none", "server 9, incarnation dead, work ", "gone", "account"] {
            // MariaDB does not report the locks of a branch without a session.
            let is_unknown = database == "vault" && word == "account";
            assert!(is_unknown || line.contains(word), "{word:?} is not in:\n{listed}");
        }
    }
    let json: Json = serde_json::from_str(&cluster.must(&["tx", "list", "--json"])).unwrap();
    assert_eq!(json["branches"][0]["decision"], "none");
    for place in [0, 1] {
        assert!(
            json["branches"][place]["age_ms"].is_u64() && json["branches"][place]["attempt"] == 1,
            "{json}"
        );
    }

    // Without input there is no confirmation.
    let run = cluster.run(&["tx", "resolve", &id]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.out.contains(&id) && run.err.contains("nothing was done") && run.err.contains("--yes"),
        "{}",
        run.err
    );
    assert_eq!(bank.prepared(cluster.number), 2);

    let output = cluster.must(&["tx", "resolve", &id, "--yes"]);
    assert_eq!(output, "ledger: rolled back\nvault: rolled back\n");
    assert_eq!(bank.prepared(cluster.number), 0);
    assert_eq!(bank.balances(account), (OPENING, OPENING));
    assert_eq!(cluster.must(&["tx", "list"]), "Nothing is in doubt.\n");
    // The register was written first.
    let shown = cluster.must(&["tx", "show", &id]);
    assert!(shown.contains("no decision") && shown.contains("attempt 1  abort"), "{shown}");
    let again = cluster.must(&["tx", "resolve", &id, "--yes"]);
    assert_eq!(again, "No reachable database has a prepared branch of it.\n");

    // The request itself continues with the next attempt.
    let (from, to) = (format!("from={account}"), format!("to={account}"));
    cluster.must(&["tx", "run", "transfer", &from, &to, "amount=1", "--id", &id]);
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));
    let shown = cluster.must(&["tx", "show", &id]);
    assert!(shown.contains("attempt 1  abort") && shown.contains("attempt 2  commit"), "{shown}");
}
