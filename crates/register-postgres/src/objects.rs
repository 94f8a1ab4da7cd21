//! Objects: rows that never change.

use std::sync::Arc;

use bytes::Bytes;
use jeton_register::{Error, check_blob_name, check_object};

use crate::connection::Session;
use crate::pipelined_connection::{Idempotence, PipelinedConnection};

/// The most names that one statement deletes or lists.
const NAMES_MAX: usize = 1000;

pub async fn put(connection: &PipelinedConnection, name: String, bytes: Bytes) -> Result<(), Error> {
    check_object(&name, bytes.len())?;
    let (name, bytes) = (&name, &bytes[..]);
    let put = |session: Arc<Session>| async move {
        session.client.execute(&session.statements.put_object, &[name, &bytes]).await
    };
    connection.execute(Idempotence::Idempotent, put).await.map(drop)
}

pub async fn get(connection: &PipelinedConnection, name: String) -> Result<Option<Bytes>, Error> {
    check_blob_name(&name)?;
    let name = &name;
    let get = |session: Arc<Session>| async move {
        session.client.query_opt(&session.statements.get_object, &[name]).await
    };
    let row = connection.execute(Idempotence::Idempotent, get).await?;
    Ok(row.map(|row| Bytes::copy_from_slice(row.get(0))))
}

pub async fn delete(connection: &PipelinedConnection, names: Vec<String>) -> Result<(), Error> {
    for names in names.chunks(NAMES_MAX) {
        let delete = |session: Arc<Session>| async move {
            session.client.execute(&session.statements.delete_objects, &[&names]).await
        };
        connection.execute(Idempotence::Idempotent, delete).await?;
    }
    Ok(())
}

pub async fn list(
    connection: &PipelinedConnection,
    (prefix, after): (String, String),
    limit: usize,
) -> Result<Vec<String>, Error> {
    let (prefix, after, limit) = (&prefix, &after, limit.min(NAMES_MAX) as i64);
    let list = |session: Arc<Session>| async move {
        session.client.query(&session.statements.list_objects, &[prefix, after, &limit]).await
    };
    let rows = connection.execute(Idempotence::Idempotent, list).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
