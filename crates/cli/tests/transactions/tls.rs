//! Servers that call each other over HTTPS, and their clients.

use jeton_client::Tls;
use jeton_client::transactions::{AttemptError, Error, Options, Outcome, Transactions};
use jeton_testbed::Certificate;
use serde_json::json;

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};
use crate::http_client::id;
use crate::in_doubt::leave_behind_of;
use crate::program::until;

/// The status of the coordinator of the branches in doubt, as the first server reports it.
fn coordinator_status(cluster: &Cluster) -> String {
    let found: serde_json::Value = serde_json::from_str(&cluster.must(&["tx", "list", "--json"])).unwrap();
    found["branches"][0]["coordinator_status"].as_str().unwrap().to_owned()
}

pub fn servers_and_clients_use_https(bank: &Bank) {
    let certificate = Certificate::of("127.0.0.1").unwrap();
    let more = "recovery_interval = \"1h\"";
    let setup = Setup { servers: 2, registers: "postgres", more, certificate: Some(&certificate) };
    let mut cluster = Cluster::start(bank, &setup);
    let account = bank.account();
    let execute = |pem: &str| {
        let client = Transactions::new(Options {
            tls: Some(Tls::trusting(pem).unwrap()),
            ..Options::to([&cluster.urls()[0]])
        });
        let parameters = json!({"from": account, "to": account, "amount": 40});
        bank.runtime.block_on(client.unwrap().session().execute("transfer", &parameters).into_future())
    };
    assert_eq!(execute(&certificate.pem), Ok(Outcome::Done(json!({"amount": 40, "left": OPENING - 40}))));
    let other = Certificate::of("127.0.0.1").unwrap();
    let untrusted = execute(&other.pem).unwrap_err();
    assert!(
        matches!(untrusted, Error::Unreachable { last: AttemptError::Untrusted { .. }, .. }),
        "{untrusted}"
    );
    assert_eq!(bank.balances(account), (OPENING - 40, OPENING + 40));

    // The second server responds that it has restarted since.
    let account = bank.account();
    assert_eq!(leave_behind_of(2, bank, bank.cluster(cluster.number), &id(0), account), 2);
    assert_eq!(coordinator_status(&cluster), "gone");
    cluster.kill(0);
    cluster.trust(&other.pem);
    cluster.start_again(0);
    let untrusted = "the certificate of another server is not trusted";
    until("the other server is not trusted", || cluster.logs()[0].contains(untrusted));
    until("the other server is suspected", || coordinator_status(&cluster) == "suspected");
    assert!(!cluster.logs()[1].contains(untrusted), "{}", cluster.logs()[1]);
}

pub fn a_plain_url_of_another_machine_is_logged(bank: &Bank) {
    let setup = Setup { servers: 2, registers: "postgres", ..Setup::default() };
    let mut cluster = Cluster::start(bank, &setup);
    let line = "the connection to server 2 is not or not always encrypted";
    assert!(!cluster.logs()[0].contains("always encrypted"), "{}", cluster.logs()[0]);
    cluster.kill(0);
    // The addresses are reserved for documentation.
    let (own, other) = (cluster.addresses[0].clone(), cluster.addresses[1].clone());
    cluster.reconfigure(|config| config.replace(&own, "192.0.2.1:6381").replace(&other, "192.0.2.2:6381"));
    cluster.start_again(0);
    let log = &cluster.logs()[0];
    assert_eq!(log.matches(line).count(), 1, "{log}");
    assert_eq!(log.matches("always encrypted").count(), 1, "{log}");
}
