//! The Python client against real servers, if Python is installed.

use std::path::Path;
use std::process::Command;

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

pub fn the_python_client_executes_a_transfer(bank: &Bank) {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if Command::new(&python).arg("--version").output().is_err() {
        println!("skipped: there is no {python}");
        return;
    }
    let setup = Setup { servers: 2, registers: "postgres", ..Setup::default() };
    let cluster = Cluster::start(bank, &setup);
    let account = bank.account();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/src");
    let output = Command::new(python)
        .args(["-c", SCRIPT, &cluster.urls().join(","), &account.to_string()])
        .env("PYTHONPATH", source)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(cluster.folder())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.success(), out.trim()), (true, "ok"), "{err}");
    assert_eq!(bank.balances(account), (OPENING - 50, OPENING + 50));
}
