//! The tables and their version.
//!
//! ```text
//! jeton_register   a row for each register: kind of log (`space`), log, slot → value
//! jeton_trim       the trim point of a log, and the highest slot written before the trim
//! jeton_retired    a mark for each dated kind: all logs below it are retired
//! jeton_row        blobs
//! jeton_object     objects
//! jeton_schema     the version of these tables
//! ```

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::open_error::OpenError;

/// The version of the tables.
pub const VERSION: i32 = 2;

/// Held while the tables are created: concurrent `CREATE TABLE IF NOT EXISTS` statements fail. The bytes
/// spell `jetonreg`.
const LOCK: i64 = 0x6a65_746f_6e72_6567;

const TABLES: &str = r#"
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
CREATE TABLE IF NOT EXISTS jeton_object (
    name text COLLATE "C" PRIMARY KEY,
    content bytea NOT NULL
);
"#;

/// What version 2 changes in the tables of version 1. May be repeated.
///
/// Frames and objects do not compress. Rows are inserted and deleted at the rate of the log: vacuum must
/// follow, however large the tables are.
const UPGRADE: &str = "
ALTER TABLE jeton_register ALTER COLUMN value SET STORAGE EXTERNAL;
ALTER TABLE jeton_object ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE jeton_register SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 2000,
    toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE jeton_object SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 2000,
    toast.autovacuum_vacuum_cost_delay = 0
);
";

/// Creates missing tables, and upgrades those of an earlier version. Tables of a later version are not
/// changed.
pub async fn create(client: &Client) -> Result<(), OpenError> {
    match check(client).await {
        Err(OpenError::NoSchema) => {}
        Err(OpenError::Version { found, expected }) if found < expected => {}
        other => return other,
    }
    let text = format!(
        "BEGIN;
        SELECT pg_advisory_xact_lock({LOCK});
        {TABLES}
        {UPGRADE}
        INSERT INTO jeton_schema AS s (version) VALUES ({VERSION})
            ON CONFLICT (single) DO UPDATE SET version = excluded.version WHERE s.version < excluded.version;
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
