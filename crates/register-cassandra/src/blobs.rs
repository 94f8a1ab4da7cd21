//! Blobs: a row for each, replaced on the condition that it has the version that was read.

use jeton_register::{Blob, Error, Slot, check_blob_name};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, big, blob, text};
use crate::failure::Failure;

/// The largest blob, in bytes.
const BLOB_BYTES_MAX: usize = 1 << 20;

/// The most blobs of a store that can be listed.
const BLOBS_MAX: usize = 4096;

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
    let rows =
        cluster.execute_idempotent(Place::Name(name), &cluster.statements.get_blob, vec![text(name)]).await;
    let mut rows = rows.map_err(Failure::unavailable)?;
    let version = rows.number(0, "version");
    Ok(rows.take_blob(0, "content").map(|bytes| Blob { version, bytes: bytes.into() }))
}

/// The blobs whose names begin with `prefix`, in order. Reads all blobs: there are few.
pub async fn list(cluster: &Cluster, prefix: &str) -> Result<Vec<(String, Blob)>, Error> {
    let limit = vec![Some(CqlValue::Int(BLOBS_MAX as i32 + 1))];
    let rows = cluster.execute_idempotent(Place::Name(prefix), &cluster.statements.all_blobs, limit).await;
    let mut rows = rows.map_err(Failure::unavailable)?;
    if rows.len() > BLOBS_MAX {
        return Err(Error::TooLarge(format!("there are more than {BLOBS_MAX} blobs")));
    }
    let mut blobs = Vec::new();
    for row in 0..rows.len() {
        let name = rows.get(row, "name").and_then(CqlValue::as_text).cloned().unwrap_or_default();
        let version = rows.number(row, "version");
        if let Some(bytes) = rows.take_blob(row, "content").filter(|_| name.starts_with(prefix)) {
            blobs.push((name, Blob { version, bytes: bytes.into() }));
        }
    }
    blobs.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(blobs)
}
