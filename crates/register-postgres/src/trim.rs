//! Forgetting registers, and keeping plain rows.
//!
//! What must hold: the mark is committed before the first row that it covers is deleted. Whoever was interrupted in between begins anew, and deletes the
//! rest.

use std::sync::Arc;

use bytes::Bytes;
use jeton_register::{Blob, Error, LogId, LogKind, Slot, check_blob_name};

use crate::connection::Session;
use crate::log_id::Id;
use crate::pipelined_connection::{Idempotence, PipelinedConnection};

/// The largest blob, in bytes.
const BLOB_BYTES_MAX: usize = 256 << 20;

/// How many rows one statement deletes: what is asked over the same connection waits for no more than that.
const DELETED_AT_ONCE: i64 = 10_000;

pub async fn trim(lane: &PipelinedConnection, log: LogId, through: Slot) -> Result<(), Error> {
    let (space, id, slot) = (log.kind as i16, Id(log.id), through.min(Slot::MAX).0 as i64);
    if slot == 0 {
        return Ok(());
    }
    lane.ask(Idempotence::Harmless, move |session| async move {
        session.client.execute(&session.statements.trim, &[&space, &id, &slot]).await
    })
    .await?;
    let delete = || {
        lane.ask(Idempotence::Harmless, move |session| async move {
            let delete = &session.statements.delete_trimmed;
            session.client.execute(delete, &[&space, &id, &slot, &DELETED_AT_ONCE]).await
        })
    };
    while delete().await? == DELETED_AT_ONCE as u64 {}
    Ok(())
}

pub async fn retire(lane: &PipelinedConnection, space: LogKind, below: u128) -> Result<(), Error> {
    space.check_dated()?;
    let (space, below) = (space as i16, Id(below));
    lane.ask(Idempotence::Harmless, move |session| async move {
        session.client.execute(&session.statements.retire, &[&space, &below]).await
    })
    .await?;
    for trim_points in [false, true] {
        let delete = || {
            lane.ask(Idempotence::Harmless, move |session| async move {
                let statements = &session.statements;
                let delete =
                    if trim_points { &statements.delete_retired_trims } else { &statements.delete_retired };
                session.client.execute(delete, &[&space, &below, &DELETED_AT_ONCE]).await
            })
        };
        while delete().await? == DELETED_AT_ONCE as u64 {}
    }
    Ok(())
}

pub async fn put_blob(lane: &PipelinedConnection, name: String, blob: Blob) -> Result<bool, Error> {
    check_blob_name(&name)?;
    let len = blob.bytes.len();
    if len > BLOB_BYTES_MAX {
        return Err(Error::TooLarge(format!("a blob of {len} bytes; the limit is {BLOB_BYTES_MAX}")));
    }
    if blob.version > Slot::MAX.0 {
        return Err(Error::Invalid(format!("the version {} of a blob is too high", blob.version)));
    }
    let put = move |session: Arc<Session>| {
        let (name, blob) = (name.clone(), blob.clone());
        async move {
            let put = &session.statements.put_blob;
            session.client.execute(put, &[&name, &(blob.version as i64), &&blob.bytes[..]]).await
        }
    };
    Ok(lane.ask(Idempotence::Telling, put).await? > 0)
}

pub async fn get_blob(lane: &PipelinedConnection, name: String) -> Result<Option<Blob>, Error> {
    check_blob_name(&name)?;
    let get = move |session: Arc<Session>| {
        let name = name.clone();
        async move { session.client.query_opt(&session.statements.get_blob, &[&name]).await }
    };
    let row = lane.ask(Idempotence::Harmless, get).await?;
    Ok(row.map(|row| {
        let version = row.get::<_, i64>(0) as u64;
        Blob { version, bytes: Bytes::copy_from_slice(row.get(1)) }
    }))
}
