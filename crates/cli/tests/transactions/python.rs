//! The Python client against real servers, if Python is installed.

use std::path::Path;
use std::process::Command;

use jeton_testbed::Certificate;

use crate::bank::{Bank, OPENING};
use crate::cluster::{Cluster, Setup};

const SCRIPT: &str = r#"
import asyncio, sys
import jeton

urls, account = sys.argv[1].split(","), int(sys.argv[2])
parameters = {"from": account, "to": account, "amount": 40}

with jeton.Transactions(urls) as transactions:
    session = transactions.session()
    first = session.execute("transfer", parameters)
    assert first.done and first.result == {"amount": 40, "left": 60}, first
    again = transactions.issue("transfer", parameters, id=first.id)
    assert again == first, again
    try:
        transactions.issue("transfer", dict(parameters, amount=41), id=first.id)
        raise SystemExit("it was taken")
    except jeton.IdMismatch:
        pass
    refused = session.execute("transfer", dict(parameters, amount=1000))
    assert refused.outcome == "refused" and refused.reason == "not enough money", refused

async def aio():
    async with jeton.AsyncTransactions(urls) as transactions:
        outcome = await transactions.session().issue("transfer", dict(parameters, amount=10))
        assert outcome.result == {"amount": 10, "left": 50}, outcome

asyncio.run(aio())
print("ok")
"#;

const HTTPS_SCRIPT: &str = r#"
import asyncio, ssl, sys
import jeton

url, account = sys.argv[1].split(",")[0], int(sys.argv[2])
parameters = {"from": account, "to": account, "amount": 25}
tls = ssl.create_default_context(cafile=sys.argv[3])

def untrusted(error):
    assert "certificate verify failed" in str(error), error

with jeton.Transactions(url, tls=tls) as transactions:
    outcome = transactions.execute("transfer", parameters)
    assert outcome.result == {"amount": 25, "left": 75}, outcome
try:
    jeton.Transactions(url).execute("transfer", parameters)
    raise SystemExit("the certificate was trusted")
except jeton.Unreachable as error:
    untrusted(error)

async def aio():
    async with jeton.AsyncTransactions(url, tls=tls) as transactions:
        outcome = await transactions.execute("transfer", parameters)
        assert outcome.result == {"amount": 25, "left": 50}, outcome
    try:
        await jeton.AsyncTransactions(url).execute("transfer", parameters)
        raise SystemExit("the certificate was trusted")
    except jeton.Unreachable as error:
        untrusted(error)

asyncio.run(aio())
print("ok")
"#;

pub fn the_python_client_executes_a_transfer(bank: &Bank) {
    run(bank, SCRIPT, &Setup { servers: 2, registers: "postgres", ..Setup::default() }, "");
}

pub fn the_python_client_uses_https(bank: &Bank) {
    let certificate = Certificate::of("127.0.0.1").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [file, _] = certificate.write(folder.path()).unwrap();
    let setup = Setup { certificate: Some(&certificate), ..Setup::default() };
    run(bank, HTTPS_SCRIPT, &setup, file.to_str().unwrap());
}

/// Runs a script, which transfers half of the balance of an account.
fn run(bank: &Bank, script: &str, setup: &Setup<'_>, argument: &str) {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if Command::new(&python).arg("--version").output().is_err() {
        println!("skipped: there is no {python}");
        return;
    }
    let cluster = Cluster::start(bank, setup);
    let account = bank.account();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/src");
    let output = Command::new(python)
        .args(["-c", script, &cluster.urls().join(","), &account.to_string(), argument])
        .env("PYTHONPATH", source)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(cluster.folder())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.success(), out.trim()), (true, "ok"), "{err}");
    assert_eq!(bank.balances(account), (OPENING - 50, OPENING + 50));
}
