//! Trims, retirements and blobs.
//!
//! Invariant: a mark is committed before the first row that it covers is deleted. If the deletion is
//! interrupted, the next trim or retirement deletes the remaining rows.

use std::sync::Arc;

use bytes::Bytes;
use jeton_register::{Blob, Error, LogId, LogKind, Slot, check_blob_name};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use crate::connection::Session;
use crate::log_id::Id;
use crate::pipelined_connection::{Idempotence, PipelinedConnection};
use crate::statements::Statements;

/// The largest blob, in bytes.
const BLOB_BYTES_MAX: usize = 256 << 20;

/// The most rows that one statement deletes: other requests on the connection wait for it.
const DELETE_ROWS_MAX: i64 = 10_000;

/// Executes a statement, with retries. Returns the number of rows that it changed.
async fn execute(
    connection: &PipelinedConnection,
    select: fn(&Statements) -> &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, Error> {
    let statement = |session: Arc<Session>| async move {
        session.client.execute(select(&session.statements), parameters).await
    };
    connection.execute(Idempotence::Idempotent, statement).await
}

pub async fn trim(connection: &PipelinedConnection, log: LogId, through: Slot) -> Result<(), Error> {
    let (kind, id, slot) = (log.kind as i16, Id(log.id), through.min(Slot::MAX).0 as i64);
    if slot == 0 {
        return Ok(());
    }
    execute(connection, |all| &all.trim, &[&kind, &id, &slot]).await?;
    let parameters: [&(dyn ToSql + Sync); 4] = [&kind, &id, &slot, &DELETE_ROWS_MAX];
    while execute(connection, |all| &all.delete_trimmed, &parameters).await? == DELETE_ROWS_MAX as u64 {}
    Ok(())
}

pub async fn retire(connection: &PipelinedConnection, kind: LogKind, below: u128) -> Result<(), Error> {
    kind.check_dated()?;
    let (kind, below) = (kind as i16, Id(below));
    execute(connection, |all| &all.retire, &[&kind, &below]).await?;
    let deletes: [fn(&Statements) -> &Statement; 2] =
        [|all| &all.delete_retired, |all| &all.delete_retired_trims];
    for delete in deletes {
        while execute(connection, delete, &[&kind, &below, &DELETE_ROWS_MAX]).await? == DELETE_ROWS_MAX as u64
        {
        }
    }
    Ok(())
}

pub async fn put_blob(connection: &PipelinedConnection, name: String, blob: Blob) -> Result<bool, Error> {
    check_blob_name(&name)?;
    let len = blob.bytes.len();
    if len > BLOB_BYTES_MAX {
        return Err(Error::TooLarge(format!("a blob of {len} bytes; the limit is {BLOB_BYTES_MAX}")));
    }
    if blob.version > Slot::MAX.0 {
        return Err(Error::Invalid(format!("version {} of a blob is too high", blob.version)));
    }
    let (name, version, bytes) = (&name, blob.version as i64, &blob.bytes[..]);
    let put = |session: Arc<Session>| async move {
        session.client.execute(&session.statements.put_blob, &[name, &version, &bytes]).await
    };
    Ok(connection.execute(Idempotence::NotIdempotent, put).await? > 0)
}

pub async fn get_blob(connection: &PipelinedConnection, name: String) -> Result<Option<Blob>, Error> {
    check_blob_name(&name)?;
    let name = &name;
    let get = |session: Arc<Session>| async move {
        session.client.query_opt(&session.statements.get_blob, &[name]).await
    };
    let row = connection.execute(Idempotence::Idempotent, get).await?;
    Ok(row.map(|row| blob(&row, 0)))
}

pub async fn blobs(connection: &PipelinedConnection, prefix: String) -> Result<Vec<(String, Blob)>, Error> {
    let prefix = &prefix;
    let list = |session: Arc<Session>| async move {
        session.client.query(&session.statements.blobs, &[prefix]).await
    };
    let rows = connection.execute(Idempotence::Idempotent, list).await?;
    Ok(rows.iter().map(|row| (row.get(0), blob(row, 1))).collect())
}

/// The blob in these columns.
fn blob(row: &tokio_postgres::Row, first: usize) -> Blob {
    let version = row.get::<_, i64>(first) as u64;
    Blob { version, bytes: Bytes::copy_from_slice(row.get(first + 1)) }
}
