//! Kill, pause and restart of real databases.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use jeton_testbed::{MariaDb, Postgres, Proxy, folder};
use mysql_async::prelude::Queryable;
use tokio_postgres::NoTls;

async fn postgres(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn mariadb(url: &str) -> Result<mysql_async::Conn, mysql_async::Error> {
    mysql_async::Conn::new(mysql_async::Opts::from_url(url)?).await
}

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn postgres_survives_kill_pause_and_restart() {
    let folder = folder().unwrap();
    let mut database = Postgres::start(folder.path(), &[]).unwrap();
    let client = postgres(&database.url()).await.unwrap();
    client.batch_execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (2); PREPARE TRANSACTION 'waits'").await.unwrap();

    database.kill();
    client.batch_execute("SELECT 1").await.unwrap_err();
    assert!(postgres(&database.url()).await.is_err());
    database.restart().unwrap();
    let client = postgres(&database.url()).await.unwrap();
    client.batch_execute("COMMIT PREPARED 'waits'").await.unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0);
    assert_eq!(count, 2);

    database.pause();
    let pending = tokio::spawn(async move { client.batch_execute("SELECT 1").await.map(|()| client) });
    tokio::time::sleep(SHORT).await;
    assert!(!pending.is_finished());
    database.resume();
    let client = pending.await.unwrap().unwrap();

    let proxy = Proxy::start(database.address()).await.unwrap();
    let away = postgres(&Postgres::url_by(proxy.address())).await.unwrap();
    away.batch_execute("SELECT 1").await.unwrap();
    proxy.cut();
    away.batch_execute("SELECT 1").await.unwrap_err();

    database.set("max_prepared_transactions", "7");
    database.restart().unwrap();
    client.batch_execute("SELECT 1").await.unwrap_err();
    let client = postgres(&database.url()).await.unwrap();
    let shown: String = client.query_one("SHOW max_prepared_transactions", &[]).await.unwrap().get(0);
    assert_eq!(shown, "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_survives_kill_pause_and_restart() {
    for binlog in [false, true] {
        let folder = folder().unwrap();
        let mut database = MariaDb::start(folder.path(), binlog, &[]).unwrap();
        let mut client = mariadb(&database.url()).await.unwrap();
        client.query_drop("CREATE TABLE kept (n int)").await.unwrap();
        client.query_drop("INSERT INTO kept VALUES (1)").await.unwrap();
        for step in ["XA START 'w'", "INSERT INTO kept VALUES (2)", "XA END 'w'", "XA PREPARE 'w'"] {
            client.query_drop(step).await.unwrap();
        }

        database.kill();
        client.query_drop("SELECT 1").await.unwrap_err();
        assert!(mariadb(&database.url()).await.is_err());
        database.restart().unwrap();
        let mut client = mariadb(&database.url()).await.unwrap();
        client.query_drop("XA COMMIT 'w'").await.unwrap();
        let count: Option<i64> = client.query_first("SELECT count(*) FROM kept").await.unwrap();
        assert_eq!(count, Some(2));
        let logged: Option<i64> = client.query_first("SELECT @@log_bin").await.unwrap();
        assert_eq!(logged, Some(binlog.into()));

        database.pause();
        let pending = tokio::spawn(async move { client.query_drop("SELECT 1").await });
        tokio::time::sleep(SHORT).await;
        assert!(!pending.is_finished());
        database.resume();
        pending.await.unwrap().unwrap();
    }
}

/// Set in the child process that the test kills: the folder for its databases.
const CHILD: &str = "JETON_TESTBED_CHILD";

#[test]
fn databases_die_with_their_parent_process() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let postgres = Postgres::start(folder.as_ref(), &[]).unwrap();
        let mariadb = MariaDb::start(folder.as_ref(), false, &[]).unwrap();
        println!("\nstarted {} {}", postgres.process().unwrap(), mariadb.process().unwrap());
        std::thread::park();
    }
    let folder = folder().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "databases_die_with_their_parent_process", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("started")).unwrap();
    let processes: Vec<u32> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let lives = |process: &u32| std::path::Path::new(&format!("/proc/{process}/exe")).exists();
    assert!(processes.iter().all(lives), "{processes:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    while processes.iter().any(lives) {
        std::thread::sleep(Duration::from_millis(10));
    }
}
