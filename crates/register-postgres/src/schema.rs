//! The tables and their version.
//!
//! ```text
//! jeton_register   a row for each register: kind of log (`space`), log, slot → value
//! jeton_trim       the trim point of a log, and the highest slot written before the trim
//! jeton_retired    a mark for each dated kind: all logs below it are retired
//! jeton_row        blobs
//! jeton_schema     the version of these tables
//! ```

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::open_error::OpenError;

/// The version of the tables.
pub const VERSION: i32 = 1;

/// Held while the tables are created: concurrent `CREATE TABLE IF NOT EXISTS` statements fail. The bytes
/// spell `jetonreg`.
const LOCK: i64 = 0x6a65_746f_6e72_6567;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS jeton_schema (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
CREATE TABLE IF NOT EXISTS jeton_register (
    space smallint NOT NULL,
    log uuid NOT NULL,
    slot bigint NOT NULL CHECK (slot > 0),
    value bytea NOT NULL,
    PRIMARY KEY (space, log, slot)
);
CREATE TABLE IF NOT EXISTS jeton_trim (
    space smallint NOT NULL,
    log uuid NOT NULL,
    trimmed bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (space, log)
);
CREATE TABLE IF NOT EXISTS jeton_retired (
    space smallint PRIMARY KEY,
    below uuid NOT NULL
);
CREATE TABLE IF NOT EXISTS jeton_row (
    name text PRIMARY KEY,
    slot bigint NOT NULL,
    content bytea NOT NULL
);
";

/// Creates missing tables. Tables of another version are not changed.
pub async fn create(client: &Client) -> Result<(), OpenError> {
    match check(client).await {
        Ok(()) | Err(OpenError::NoSchema) => {}
        Err(error) => return Err(error),
    }
    let text = format!(
        "BEGIN;
        SELECT pg_advisory_xact_lock({LOCK});
        {TABLES}
        INSERT INTO jeton_schema (version) VALUES ({VERSION}) ON CONFLICT DO NOTHING;
        COMMIT;"
    );
    client.batch_execute(&text).await.map_err(|error| OpenError::from_statement(&error))?;
    check(client).await
}

/// Whether the tables exist and have this version.
pub async fn check(client: &Client) -> Result<(), OpenError> {
    let found = match client.query_one("SELECT version FROM jeton_schema", &[]).await {
        Ok(row) => row.get::<_, i32>(0),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Err(OpenError::NoSchema),
        Err(error) => return Err(OpenError::from_statement(&error)),
    };
    if found != VERSION {
        return Err(OpenError::Version { found, expected: VERSION });
    }
    Ok(())
}
