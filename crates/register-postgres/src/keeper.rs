//! Forgetting registers, and keeping plain rows.
//!
//! What must hold: the mark is committed before the first row that it covers is deleted. Whoever was interrupted in between begins anew, and deletes the
//! rest.

use std::sync::Arc;

use bytes::Bytes;
use jeton_register::embedded::rows::check_name;
use jeton_register::{Failure, Log, Row, Slot, Space};

use crate::connection::Session;
use crate::id::Id;
use crate::lane::{Lane, Repeat};

/// The largest row, in bytes.
const ROW_BYTES_MAX: usize = 256 << 20;

/// How many rows one statement deletes: what is asked over the same connection waits for no more than that.
const DELETED_AT_ONCE: i64 = 10_000;

pub async fn trim(lane: &Lane, log: Log, through: Slot) -> Result<(), Failure> {
    let (space, id, slot) = (log.space as i16, Id(log.id), through.min(Slot::MAX).0 as i64);
    if slot == 0 {
        return Ok(());
    }
    lane.ask(Repeat::Harmless, move |session| async move {
        session.client.execute(&session.statements.trim, &[&space, &id, &slot]).await
    })
    .await?;
    let delete = || {
        lane.ask(Repeat::Harmless, move |session| async move {
            let delete = &session.statements.delete_trimmed;
            session.client.execute(delete, &[&space, &id, &slot, &DELETED_AT_ONCE]).await
        })
    };
    while delete().await? == DELETED_AT_ONCE as u64 {}
    Ok(())
}

pub async fn retire(lane: &Lane, space: Space, below: u128) -> Result<(), Failure> {
    space.check_dated()?;
    let (space, below) = (space as i16, Id(below));
    lane.ask(Repeat::Harmless, move |session| async move {
        session.client.execute(&session.statements.retire, &[&space, &below]).await
    })
    .await?;
    for trim_points in [false, true] {
        let delete = || {
            lane.ask(Repeat::Harmless, move |session| async move {
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

pub async fn put_row(lane: &Lane, name: String, row: Row) -> Result<bool, Failure> {
    check_name(&name)?;
    let len = row.bytes.len();
    if len > ROW_BYTES_MAX {
        return Err(Failure::TooLarge(format!("a row of {len} bytes; at most {ROW_BYTES_MAX}")));
    }
    if row.slot > Slot::MAX {
        return Err(Failure::Invalid(format!("a row has no slot {}", row.slot)));
    }
    let put = move |session: Arc<Session>| {
        let (name, row) = (name.clone(), row.clone());
        async move {
            let put = &session.statements.put_row;
            session.client.execute(put, &[&name, &(row.slot.0 as i64), &&row.bytes[..]]).await
        }
    };
    Ok(lane.ask(Repeat::Telling, put).await? > 0)
}

pub async fn get_row(lane: &Lane, name: String) -> Result<Option<Row>, Failure> {
    check_name(&name)?;
    let get = move |session: Arc<Session>| {
        let name = name.clone();
        async move { session.client.query_opt(&session.statements.get_row, &[&name]).await }
    };
    let row = lane.ask(Repeat::Harmless, get).await?;
    Ok(row.map(|row| {
        let slot = Slot(row.get::<_, i64>(0) as u64);
        Row { slot, bytes: Bytes::copy_from_slice(row.get(1)) }
    }))
}
