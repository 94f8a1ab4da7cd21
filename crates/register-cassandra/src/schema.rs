//! The tables and their version.
//!
//! ```text
//! register      a partition for each log: slot → value; slot 0 is the control row
//! retired       a mark for each dated kind: all logs below it are retired
//! dated_bucket  the buckets of time that have dated logs
//! dated_log     the dated logs of a bucket, for their deletion
//! named_blob    blobs
//! object        objects
//! object_name   the names of the objects, in order
//! tables_version  the version of these tables
//! ```

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use crate::open_error::OpenError;

/// The version of the tables.
pub const VERSION: i32 = 1;

/// No speculation: it would execute a read on more replicas than asked for. Paxos state that is older than
/// `gc_grace_seconds` may be ignored, so it must not be low. Frames do not compress.
const TABLES: [&str; 8] = [
    "CREATE TABLE IF NOT EXISTS {}.register (
        space tinyint, log blob, slot bigint, value blob, version bigint, last bigint, trimmed bigint,
        PRIMARY KEY ((space, log), slot)
    ) WITH gc_grace_seconds = 86400 AND compression = {'enabled': false}
    AND compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 64}
    AND speculative_retry = 'NEVER' AND additional_write_policy = 'NEVER'",
    "CREATE TABLE IF NOT EXISTS {}.retired (space tinyint PRIMARY KEY, below blob)",
    "CREATE TABLE IF NOT EXISTS {}.dated_bucket (space tinyint, bucket bigint, PRIMARY KEY (space, bucket))",
    "CREATE TABLE IF NOT EXISTS {}.dated_log (
        space tinyint, bucket bigint, log blob, PRIMARY KEY ((space, bucket), log))",
    "CREATE TABLE IF NOT EXISTS {}.named_blob (name text PRIMARY KEY, version bigint, content blob)",
    "CREATE TABLE IF NOT EXISTS {}.object (name text PRIMARY KEY, content blob)
        WITH compression = {'enabled': false}",
    "CREATE TABLE IF NOT EXISTS {}.object_name (bucket tinyint, name text, PRIMARY KEY (bucket, name))",
    "CREATE TABLE IF NOT EXISTS {}.tables_version (part tinyint PRIMARY KEY, version int)",
];

/// Creates what is missing. A keyspace that exists keeps its replication.
pub async fn create(session: &Session, keyspace: &str, replicas: u8) -> Result<(), OpenError> {
    match check(session, keyspace).await {
        Err(OpenError::NoSchema) => {}
        other => return other,
    }
    execute(
        session,
        &format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication =
            {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}} AND durable_writes = true"
        ),
    )
    .await?;
    for table in TABLES {
        execute(session, &table.replacen("{}", keyspace, 1)).await?;
    }
    // Last: a creation that was interrupted is completed by the next one.
    execute(
        session,
        &format!("INSERT INTO {keyspace}.tables_version (part, version) VALUES (0, {VERSION}) IF NOT EXISTS"),
    )
    .await?;
    check(session, keyspace).await
}

async fn execute(session: &Session, text: &str) -> Result<(), OpenError> {
    session.query_unpaged(text, ()).await.map(drop).map_err(|error| refused(&error))
}

fn refused(error: &ExecutionError) -> OpenError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(_, text)) => {
            OpenError::Refused(text.clone())
        }
        other => OpenError::Unreachable(other.to_string()),
    }
}

/// Whether the tables exist and have this version.
pub async fn check(session: &Session, keyspace: &str) -> Result<(), OpenError> {
    let found = session
        .query_unpaged(format!("SELECT version FROM {keyspace}.tables_version WHERE part = 0"), ())
        .await;
    let result = match found {
        Ok(result) => result,
        // No keyspace, or no table.
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, _))) => {
            return Err(OpenError::NoSchema);
        }
        Err(error) => return Err(refused(&error)),
    };
    let rows = result.into_rows_result().map_err(|error| OpenError::Refused(error.to_string()))?;
    match rows.maybe_first_row::<(i32,)>() {
        Ok(Some((VERSION,))) => Ok(()),
        Ok(Some((found,))) => Err(OpenError::Version { found, expected: VERSION }),
        Ok(None) => Err(OpenError::NoSchema),
        Err(error) => Err(OpenError::Refused(error.to_string())),
    }
}
