//! Blobs: a row for each, replaced on the condition that it has the version that was read.

use jeton_register::{Blob, Error, Slot, check_blob_name};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, big, blob, text};
use crate::failure::Failure;

/// The largest blob, in bytes.
const BLOB_BYTES_MAX: usize = 1 << 20;

/// How often a blob is written anew because other clients write it.
const ROUNDS_MAX: usize = 64;

pub async fn put(cluster: &Cluster, name: &str, new: Blob) -> Result<bool, Error> {
    check_blob_name(name)?;
    let len = new.bytes.len();
    if len > BLOB_BYTES_MAX {
        return Err(Error::TooLarge(format!("a blob of {len} bytes; the limit is {BLOB_BYTES_MAX}")));
    }
    if new.version > Slot::MAX.0 {
        return Err(Error::Invalid(format!("version {} of a blob is too high", new.version)));
    }
    let mut present = read(cluster, name).await?.map(|present| present.version);
    for _ in 0..ROUNDS_MAX {
        if present.is_some_and(|present| present > new.version) {
            return Ok(false);
        }
        let values = vec![big(new.version), blob(&new.bytes), text(name), present.and_then(big)];
        let rows = cluster.execute(Place::Name(name), &cluster.statements.put_blob, values).await?;
        if rows.applied()? {
            return Ok(true);
        }
        present = rows.get(0, "version").and_then(CqlValue::as_bigint).map(|version| version as u64);
    }
    Err(Error::Busy(format!("other clients write the blob {name} all the time")))
}

pub async fn get(cluster: &Cluster, name: &str) -> Result<Option<Blob>, Error> {
    check_blob_name(name)?;
    read(cluster, name).await
}

async fn read(cluster: &Cluster, name: &str) -> Result<Option<Blob>, Error> {
    let rows = cluster.execute_idempotent(Place::Name(name), &cluster.statements.get_blob, vec![text(name)]).await;
    let mut rows = rows.map_err(Failure::unavailable)?;
    let version = rows.number(0, "version");
    Ok(rows.take_blob(0, "content").map(|bytes| Blob { version, bytes: bytes.into() }))
}
