//! Reads: a range of the registers of a log, and its extent.

use bytes::Bytes;
use jeton_register::{Error, Extent, LogId, Slot};

use crate::log_id::Id;
use crate::pipelined_connection::{Idempotence, PipelinedConnection};

/// The most registers that one read returns.
const REGISTERS_MAX: usize = 65_536;
/// The most bytes of values that one read returns, except that it always returns one register.
const BYTES_MAX: i64 = 4 << 20;

pub async fn read(
    connection: &PipelinedConnection,
    log: LogId,
    from: Slot,
    limit: usize,
) -> Result<Vec<(Slot, Bytes)>, Error> {
    let slot = i64::try_from(from.0).unwrap_or(i64::MAX);
    let limit = limit.min(REGISTERS_MAX) as i64;
    let rows = connection
        .execute(Idempotence::Idempotent, move |session| async move {
            let (kind, id) = (log.kind as i16, Id(log.id));
            session.client.query(&session.statements.read, &[&kind, &id, &slot, &limit, &BYTES_MAX]).await
        })
        .await?;
    let mut registers = Vec::with_capacity(rows.len());
    for row in rows {
        let through = if row.get(1) { Slot::MAX } else { Slot(row.get::<_, i64>(0) as u64) };
        if from <= through || through == Slot::MAX {
            return Err(Error::Trimmed { log, through });
        }
        // A log without registers has one row with NULL.
        if let (Some(slot), Some(value)) = (row.get::<_, Option<i64>>(2), row.get::<_, Option<&[u8]>>(3))
            && from <= Slot::MAX
        {
            registers.push((Slot(slot as u64), Bytes::copy_from_slice(value)));
        }
    }
    Ok(registers)
}

pub async fn extent(connection: &PipelinedConnection, log: LogId) -> Result<Extent, Error> {
    let row = connection
        .execute(Idempotence::Idempotent, move |session| async move {
            session.client.query_one(&session.statements.extent, &[&(log.kind as i16), &Id(log.id)]).await
        })
        .await?;
    if row.get(2) {
        return Ok(Extent::RETIRED);
    }
    Ok(Extent { trimmed: Slot(row.get::<_, i64>(0) as u64), last: Slot(row.get::<_, i64>(1) as u64) })
}
