//! Reads.
//!
//! The registers are read before the control row: a trim that removed some of them is in the control row,
//! which is read at `SERIAL` and so includes every trim of which any replica has deleted rows.

use bytes::Bytes;
use jeton_register::{Error, Extent, LogId, Slot};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, big, log_key};
use crate::failure::Failure;
use crate::log_writer::{lost, read_control, register_rows};
use crate::retirement::Retirement;

/// The most registers that one read returns.
const REGISTERS_MAX: usize = 65_536;

/// The most bytes of values that one read returns, except that it always returns one register.
const BYTES_MAX: usize = 4 << 20;

/// Registers of the first statement, which may be large, and of any statement: values after small ones may be
/// large.
const FIRST: usize = 8;
const PAGE_MAX: usize = 128;

pub async fn read(
    cluster: &Cluster,
    retirement: &Retirement,
    log: LogId,
    from: Slot,
    limit: usize,
) -> Result<Vec<(Slot, Bytes)>, Error> {
    let limit = limit.min(REGISTERS_MAX);
    let (mut registers, mut bytes): (Vec<(Slot, Bytes)>, usize) = (Vec::new(), 0);
    // Slot 0 is the control row.
    let mut next = from.max(Slot(1));
    while registers.len() < limit && next <= Slot::MAX {
        let average = bytes / registers.len().max(1) + 1;
        let fits = if registers.is_empty() { FIRST } else { (BYTES_MAX - bytes) / average };
        let count = (limit - registers.len()).min(fits).clamp(1, PAGE_MAX);
        let [space, id] = log_key(log);
        let values = vec![space, id, big(next.0), Some(CqlValue::Int(count as i32))];
        let rows = cluster.execute_idempotent(Place::Log(log), &cluster.statements.range, values).await;
        let page = register_rows(rows.map_err(Failure::unavailable)?);
        let is_last = page.len() < count;
        let mut is_full = false;
        for (slot, value) in page {
            is_full = !registers.is_empty() && bytes + value.len() > BYTES_MAX;
            if is_full {
                break;
            }
            bytes += value.len();
            next = slot.next();
            registers.push((slot, value));
        }
        if is_last || is_full || bytes >= BYTES_MAX {
            break;
        }
    }
    let extent = extent(cluster, retirement, log).await?;
    if from <= extent.trimmed {
        return Err(Error::Trimmed { log, through: extent.trimmed });
    }
    if log.kind.is_dense() {
        let expected = (from.0.max(1)..).map(Slot);
        if let Some((slot, _)) = expected.zip(&registers).find(|(slot, (found, _))| slot != found) {
            return Err(lost(log, slot));
        }
        if registers.is_empty() && limit > 0 && from.max(Slot(1)) <= extent.last {
            return missing_end(cluster, log, from).await;
        }
    }
    Ok(registers)
}

/// The end of a dense log was empty, but is not any more: it was written meanwhile, or it is lost.
async fn missing_end(cluster: &Cluster, log: LogId, from: Slot) -> Result<Vec<(Slot, Bytes)>, Error> {
    let [space, id] = log_key(log);
    let values = vec![space, id, big(from.0.max(1)), Some(CqlValue::Int(1))];
    let rows = cluster.execute_idempotent(Place::Log(log), &cluster.statements.range, values).await;
    let found = register_rows(rows.map_err(Failure::unavailable)?);
    match found.first() {
        Some((slot, _)) if *slot == from.max(Slot(1)) => Ok(found),
        _ => {
            let control = read_control(cluster, log).await.map_err(Failure::unavailable)?;
            if from <= control.trimmed {
                return Err(Error::Trimmed { log, through: control.trimmed });
            }
            Err(lost(log, from))
        }
    }
}

pub async fn extent(cluster: &Cluster, retirement: &Retirement, log: LogId) -> Result<Extent, Error> {
    let control = read_control(cluster, log).await.map_err(Failure::unavailable)?;
    if log.kind.is_dated() && retirement.includes(cluster, log).await.map_err(Failure::unavailable)? {
        return Ok(Extent::RETIRED);
    }
    Ok(control.extent())
}
