//! Retirement of dated logs: a mark for each kind, and the deletion of the rows below it.
//!
//! Invariants:
//! - The mark is committed before the first row below it is deleted.
//! - A dated log is listed before it is created, so that the deletion finds it.
//! - A writer reads the mark after its insert, and deletes what it finds to be retired.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::try_join_all;
use jeton_register::{Error, LogId, LogKind};
use scylla::value::CqlValue;

use crate::cluster::{Cluster, Place, Rows, Value, big, blob, log_key, tiny};
use crate::failure::Failure;

/// Logs of one bucket have the same highest bits of their ids: of a UUIDv7, the same 35 minutes.
const BUCKET_BITS: u32 = 27;

/// The most logs that are listed at once, and deleted concurrently.
const PAGE: usize = 64;

/// A deletion is later than a write of a node whose clock is ahead by less.
const SKEW: Duration = Duration::from_secs(3600);

/// What is known of the marks. They only rise.
#[derive(Debug, Default)]
pub struct Retirement {
    below: Mutex<BTreeMap<u8, u128>>,
}

fn bucket(id: u128) -> u64 {
    (id >> (u128::BITS - BUCKET_BITS)) as u64
}

fn place(kind: LogKind) -> Place<'static> {
    Place::Log(LogId { kind, id: 0 })
}

impl Retirement {
    /// Whether the log is known to be retired, without a request.
    pub fn is_known(&self, log: LogId) -> bool {
        let below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        below.get(&(log.kind as u8)).is_some_and(|below| log.id < *below)
    }

    /// Whether the log is retired, by a read of the mark.
    pub async fn includes(&self, cluster: &Cluster, log: LogId) -> Result<bool, Failure> {
        if self.is_known(log) {
            return Ok(true);
        }
        let values = vec![tiny(log.kind as u8)];
        let rows = cluster.execute_idempotent(place(log.kind), &cluster.statements.retired, values).await?;
        self.learn(log.kind, mark(rows)?);
        Ok(self.is_known(log))
    }

    fn learn(&self, kind: LogKind, mark: Option<u128>) {
        if let Some(mark) = mark {
            let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
            let known = below.entry(kind as u8).or_default();
            *known = mark.max(*known);
        }
    }

    /// Lists a log that is created next.
    pub async fn list(&self, cluster: &Cluster, log: LogId) -> Result<(), Error> {
        let (space, bucket) = (tiny(log.kind as u8), big(bucket(log.id)));
        let statements = &cluster.statements;
        let log_row = vec![space.clone(), bucket.clone(), blob(&log.id.to_be_bytes())];
        let (log_row, bucket_row) = tokio::join!(
            cluster.execute_idempotent(Place::Log(log), &statements.add_dated, log_row),
            cluster.execute_idempotent(place(log.kind), &statements.add_bucket, vec![space, bucket]),
        );
        log_row.and(bucket_row).map(drop).map_err(Failure::unavailable)
    }

    /// Deletes the rows of a retired log.
    pub async fn delete_log(&self, cluster: &Cluster, log: LogId) -> Result<(), Error> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + SKEW;
        let mut values = vec![big(time.as_micros() as u64)];
        values.extend(log_key(log));
        let deleted =
            cluster.execute_idempotent(Place::Log(log), &cluster.statements.delete_log, values).await;
        deleted.map(drop).map_err(Failure::unavailable)
    }

    /// Retires all logs of a kind below this one.
    pub async fn retire(&self, cluster: &Cluster, kind: LogKind, below: u128) -> Result<(), Error> {
        kind.check_dated()?;
        let statements = &cluster.statements;
        let space = || tiny(kind as u8);
        let rows = cluster.execute_idempotent(place(kind), &statements.retired, vec![space()]).await;
        let mut present = mark(rows.map_err(Failure::unavailable)?)?;
        while present.is_none_or(|present| present < below) {
            let expected: Value = present.and_then(|present| blob(&present.to_be_bytes()));
            let values = vec![blob(&below.to_be_bytes()), space(), expected];
            let rows = cluster.execute(place(kind), &statements.retire, values).await?;
            present = if rows.applied()? { Some(below) } else { mark(rows)? };
        }
        self.learn(kind, present);
        self.delete_below(cluster, kind, present.unwrap_or(below)).await
    }

    /// Deletes the logs below a mark that is committed.
    async fn delete_below(&self, cluster: &Cluster, kind: LogKind, below: u128) -> Result<(), Error> {
        let statements = &cluster.statements;
        let space = || tiny(kind as u8);
        let execute = async |statement, values| {
            let rows = cluster.execute_idempotent(place(kind), statement, values).await;
            rows.map_err(Failure::unavailable)
        };
        let last = bucket(below);
        let buckets = execute(&statements.buckets, vec![space(), big(last)]).await?;
        for row in 0..buckets.len() {
            let number = buckets.number(row, "bucket");
            loop {
                let limit = Some(CqlValue::Int(PAGE as i32));
                let values = vec![space(), big(number), blob(&below.to_be_bytes()), limit];
                let mut page = execute(&statements.dated, values).await?;
                let ids: Vec<u128> =
                    (0..page.len()).filter_map(|row| id_of(page.take_blob(row, "log")?)).collect();
                let Some(highest) = ids.iter().max() else { break };
                try_join_all(ids.iter().map(|&id| self.delete_log(cluster, LogId { kind, id }))).await?;
                let values = vec![space(), big(number), blob(&highest.to_be_bytes())];
                execute(&statements.delete_dated, values).await?;
            }
            if number < last {
                execute(&statements.delete_bucket, vec![space(), big(number)]).await?;
            }
        }
        Ok(())
    }
}

fn id_of(bytes: Vec<u8>) -> Option<u128> {
    bytes.try_into().ok().map(u128::from_be_bytes)
}

/// The mark in a result, if there is one.
fn mark(mut rows: Rows) -> Result<Option<u128>, Failure> {
    let Some(bytes) = rows.take_blob(0, "below") else { return Ok(None) };
    id_of(bytes).map(Some).ok_or_else(|| Failure::Unknown("the retirement mark is damaged".into()))
}
