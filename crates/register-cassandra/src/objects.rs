//! Objects: a row with the content, and a row with the name in an ordered list.
//!
//! The name is listed before the content is stored, and removed after it: content that no list shows would
//! never be deleted.

use bytes::Bytes;
use futures_util::future::try_join_all;
use jeton_register::{Error, check_object};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, blob, text};
use crate::failure::Failure;

/// Deletions that run concurrently.
const DELETES_MAX: usize = 32;

/// The most names of one list.
const NAMES_MAX: usize = 10_000;

pub async fn put(cluster: &Cluster, name: &str, content: Bytes) -> Result<(), Error> {
    check_object(name, content.len())?;
    let statements = &cluster.statements;
    let listed = cluster.execute_idempotent(Place::Name(name), &statements.put_name, vec![text(name)]).await;
    listed.map_err(Failure::unavailable)?;
    let values = vec![text(name), blob(&content)];
    cluster.execute_idempotent(Place::Name(name), &statements.put_object, values).await?;
    Ok(())
}

pub async fn get(cluster: &Cluster, name: &str) -> Result<Option<Bytes>, Error> {
    let values = vec![text(name)];
    let rows = cluster.execute_idempotent(Place::Name(name), &cluster.statements.get_object, values).await;
    Ok(rows.map_err(Failure::unavailable)?.take_blob(0, "content").map(Bytes::from))
}

pub async fn delete(cluster: &Cluster, names: &[String]) -> Result<(), Error> {
    let statements = &cluster.statements;
    let delete_one = async |name: &String| {
        for statement in [&statements.delete_object, &statements.delete_name] {
            cluster.execute_idempotent(Place::Name(name), statement, vec![text(name)]).await?;
        }
        Ok::<_, Failure>(())
    };
    for part in names.chunks(DELETES_MAX) {
        try_join_all(part.iter().map(delete_one)).await?;
    }
    Ok(())
}

pub async fn list(cluster: &Cluster, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
    // The first name after `after` is at least this.
    let first = if after < prefix { prefix.to_owned() } else { format!("{after}\0") };
    // No character of a name is above `z`.
    let end = format!("{prefix}~");
    if limit == 0 || first >= end {
        return Ok(Vec::new());
    }
    let values = vec![text(&first), text(&end), Some(CqlValue::Int(limit.min(NAMES_MAX) as i32))];
    let rows = cluster.execute_idempotent(Place::Name(prefix), &cluster.statements.names, values).await;
    let rows = rows.map_err(Failure::unavailable)?;
    let name = |row| rows.get(row, "name").and_then(CqlValue::as_text).cloned();
    Ok((0..rows.len()).filter_map(name).collect())
}
