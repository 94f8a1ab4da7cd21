//! Encrypted connections, and servers that are not trusted.

use anyhow::{Result, ensure};
use jeton_etx::{Outcome, Resource, ResourceError, Value};
use jeton_participants::{MariaDb, Postgres};
use jeton_testbed::{Certificate, MariaDb as MariaDbServer, Postgres as PostgresServer};

use super::fixture::{Engine, Fixture, attempt, settings};

/// A database that takes encrypted connections only.
enum Encrypted {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
}

/// Creates the tables of a database by its URL, and returns whether a session of a branch is encrypted.
async fn is_encrypted(engine: Engine, url: &str) -> Result<bool, ResourceError> {
    let (database, ask): (Box<dyn Resource>, _) = match engine {
        Engine::Postgres => {
            let database = Postgres::new(url, settings())?;
            database.ensure_schema().await?;
            (Box::new(database), "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        }
        Engine::MariaDb { .. } => {
            let database = MariaDb::new(url, settings())?;
            database.ensure_schema().await?;
            let ask = "SELECT IF(VARIABLE_VALUE = '', 'false', 'true') FROM information_schema.SESSION_STATUS \
                       WHERE VARIABLE_NAME = 'Ssl_cipher'";
            (Box::new(database), ask)
        }
    };
    let mut branch = database.begin(attempt()).await?;
    let result = branch.execute(ask, &[]).await?;
    branch.decide(Outcome::Abort).await?;
    Ok(result.rows[0][0].1 == Value::Text("true".into()))
}

pub async fn connections_are_encrypted_as_the_url_says(fixture: &mut Fixture) -> Result<()> {
    let folder = jeton_testbed::folder()?;
    let certificate = Certificate::of("127.0.0.1")?;
    let [file, _] = certificate.write(folder.path())?;
    let other = jeton_testbed::folder()?;
    let [wrong, _] = Certificate::of("127.0.0.1")?.write(other.path())?;
    let engine = fixture.engine;
    let (server, required, trusting) = match engine {
        Engine::Postgres => {
            let server = PostgresServer::start_encrypted(folder.path(), &certificate)?;
            (Encrypted::Postgres(server), "sslmode=require", "sslmode=verify-full&sslrootcert=")
        }
        Engine::MariaDb { .. } => {
            let server = MariaDbServer::start_encrypted(folder.path(), &certificate)?;
            (Encrypted::MariaDb(server), "require_ssl=true&verify_ca=false", "require_ssl=true&ssl_ca=")
        }
    };
    let (url, plain) = match &server {
        Encrypted::Postgres(server) => (server.url(), format!("{}?sslmode=disable", server.url())),
        Encrypted::MariaDb(server) => (server.url(), server.url()),
    };
    for query in [required.to_owned(), format!("{trusting}{}", file.display())] {
        ensure!(is_encrypted(engine, &format!("{url}?{query}")).await?, "{query}");
    }
    let without_tls = match &fixture.server {
        super::fixture::Server::Postgres(server) => server.url(),
        super::fixture::Server::MariaDb(server) => server.url(),
    };
    ensure!(!is_encrypted(engine, &without_tls).await?, "the fixture has no certificate");
    for (url, label) in [
        (format!("{url}?{trusting}{}", wrong.display()), "invalid peer certificate"),
        (format!("{without_tls}?{required}"), "does not"),
        (plain, "Access denied|no encryption"),
    ] {
        let result = is_encrypted(engine, &url).await;
        let Err(ResourceError::Setup { why, remedy, .. }) = &result else {
            anyhow::bail!("{url}: {result:?}")
        };
        ensure!(
            label.split('|').any(|label| why.contains(label)) && remedy.contains("ssl"),
            "{why}: {remedy}"
        );
    }
    Ok(())
}
