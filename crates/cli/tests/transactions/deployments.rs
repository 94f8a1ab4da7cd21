//! Clusters that share databases by mistake.

use jeton_etx::{Cluster as Identity, Outcome, Resource};
use jeton_participants::{MariaDb, Postgres, Settings};

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::id;
use crate::in_doubt::leave_behind;
use crate::program::until;

/// Two deployments with the same cluster number: the second would read the decisions of the first.
pub fn a_second_deployment_of_the_same_number_is_refused(bank: &Bank) {
    let first = Cluster::start(bank, &Setup::default());
    let second = Cluster::configure(bank, &Setup::default(), first.number);
    second.must(&["init"]);
    let refused = second.start_must_fail();
    for words in ["cluster", "is deployment", "another cluster number", "DELETE FROM etx_deployment"] {
        assert!(refused.contains(words), "{words:?} is not in:\n{refused}");
    }
    // The first deployment still works.
    let account = bank.account();
    let (from, to) = (format!("from={account}"), format!("to={account}"));
    first.must(&["tx", "run", "transfer", &from, &to, "amount=1"]);
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));
}

/// Two clusters with the same registers: one would remove outcomes that the other needs.
pub fn registers_of_another_cluster_are_refused(bank: &Bank) {
    let setup = Setup { registers: "postgres", ..Setup::default() };
    let first = Cluster::start(bank, &setup);
    let second = Cluster::configure(bank, &setup, first.number);
    second.reconfigure(|config| {
        config
            .replace(&format!("cluster = {}\n", first.number), &format!("cluster = {}\n", first.number + 500))
    });
    second.must(&["init"]);
    let refused = second.start_must_fail();
    let expected = format!("the registers belong to cluster {}", first.number);
    assert!(refused.contains(&expected) && refused.contains("its own registers"), "{refused}");
}

/// A branch of another deployment with the same cluster number, for example in another database of the same
/// MariaDB.
pub fn branches_of_other_clusters_are_ignored(bank: &Bank) {
    let cluster = Cluster::start(bank, &Setup { more: "recovery_interval = \"20ms\"", ..Setup::default() });
    let ours = bank.cluster(cluster.number);
    let foreign = Identity { deployment: ours.deployment ^ 1, ..ours };
    let (account, theirs) = (bank.account(), id(0));
    assert_eq!(leave_behind(bank, foreign, &theirs, account), 2);
    assert_eq!(cluster.must(&["tx", "list"]), "Nothing is in doubt.\n");
    let resolved = cluster.must(&["tx", "resolve", &theirs, "--yes"]);
    assert_eq!(resolved, "No reachable database has a prepared branch of it.\n");
    // Recovery resolves our own branches, so it has seen the foreign ones too.
    leave_behind(bank, ours, &id(0), bank.account());
    until("our own branches are resolved", || bank.prepared(cluster.number) == 2);
    bank.runtime.block_on(async {
        let postgres = Postgres::new(&bank.postgres.url(), Settings::new("ledger", foreign, 0)).unwrap();
        let mariadb = MariaDb::new(&bank.mariadb_url(), Settings::new("vault", foreign, 1)).unwrap();
        for database in [&postgres as &dyn Resource, &mariadb] {
            let [left] = &database.prepared().await.unwrap()[..] else {
                panic!("a foreign branch was resolved")
            };
            database.decide(&left.name, Outcome::Commit).await.unwrap();
        }
    });
    assert_eq!(bank.balances(account), (OPENING - 1, OPENING + 1));
}
