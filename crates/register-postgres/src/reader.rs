//! Reading registers: a stretch of a log, and how far it reaches.

use bytes::Bytes;
use jeton_register::{Extent, Failure, Log, Slot};
use tokio_postgres::Error;

use crate::connection::Session;
use crate::id::Id;

/// The most registers that one read returns.
const REGISTERS_MAX: usize = 65_536;
/// The most bytes of values that one read returns, except that it returns one register whatever its size.
const BYTES_MAX: i64 = 4 << 20;

/// The failure is that the slots are trimmed.
type Registers = Result<Vec<(Slot, Bytes)>, Failure>;

pub async fn read(session: &Session, log: Log, from: Slot, limit: usize) -> Result<Registers, Error> {
    let slot = i64::try_from(from.0).unwrap_or(i64::MAX);
    let limit = limit.min(REGISTERS_MAX) as i64;
    let read = &session.statements.read;
    let rows =
        session.client.query(read, &[&(log.space as i16), &Id(log.id), &slot, &limit, &BYTES_MAX]).await?;
    let mut registers = Vec::with_capacity(rows.len());
    for row in rows {
        let through = if row.get(1) { Slot::MAX } else { Slot(row.get::<_, i64>(0) as u64) };
        if from <= through || through == Slot::MAX {
            return Ok(Err(Failure::Trimmed { log, through }));
        }
        // A log without registers has one row that holds none.
        if let (Some(slot), Some(value)) = (row.get::<_, Option<i64>>(2), row.get::<_, Option<&[u8]>>(3))
            && from <= Slot::MAX
        {
            registers.push((Slot(slot as u64), Bytes::copy_from_slice(value)));
        }
    }
    Ok(Ok(registers))
}

pub async fn extent(session: &Session, log: Log) -> Result<Extent, Error> {
    let row =
        session.client.query_one(&session.statements.extent, &[&(log.space as i16), &Id(log.id)]).await?;
    if row.get(2) {
        return Ok(Extent::RETIRED);
    }
    Ok(Extent { trimmed: Slot(row.get::<_, i64>(0) as u64), last: Slot(row.get::<_, i64>(1) as u64) })
}
