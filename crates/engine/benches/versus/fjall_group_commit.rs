//! A plain database commit per group: a thread takes what has come, commits one fjall batch with a row per counter and a row per
//! id, synced, and answers. Values come from memory and ids are not even looked up: all of that would cost it more.

use std::collections::HashMap;
use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use tokio::sync::{mpsc, oneshot};

use crate::callers::{Contender, scatter};

pub struct FjallGroup {
    queue: mpsc::Sender<(u64, u64, oneshot::Sender<()>)>,
}

impl FjallGroup {
    pub fn open(folder: &Path) -> Self {
        let database = Database::builder(folder).open().expect("a database");
        let counters = database.keyspace("counters", KeyspaceCreateOptions::default).expect("a keyspace");
        let ids = database.keyspace("ids", KeyspaceCreateOptions::default).expect("a keyspace");
        let (queue, mut requests) = mpsc::channel::<(u64, u64, oneshot::Sender<()>)>(8192);
        std::thread::spawn(move || {
            let mut values: HashMap<u64, i64> = HashMap::new();
            let mut received = Vec::new();
            loop {
                received.clear();
                if futures_executor::block_on(requests.recv_many(&mut received, 2048)) == 0 {
                    return;
                }
                let mut batch = database.batch().durability(Some(PersistMode::SyncData));
                for (counter, number, _) in &received {
                    let value = values.entry(*counter).or_default();
                    *value += 1;
                    let mut id = [0; 16];
                    id[..8].copy_from_slice(&scatter(*number).to_be_bytes());
                    id[8..].copy_from_slice(&number.to_be_bytes());
                    batch.insert(&counters, format!("counter-{counter:08}"), value.to_le_bytes());
                    batch.insert(&ids, id, [&value.to_le_bytes()[..], &[0; 24][..]].concat());
                }
                batch.commit().expect("committed");
                for (_, _, answer) in received.drain(..) {
                    let _ = answer.send(());
                }
            }
        });
        Self { queue }
    }
}

impl Contender for FjallGroup {
    async fn add(&self, counter: u64, number: u64) {
        let (answer, answered) = oneshot::channel();
        self.queue.send((counter, number, answer)).await.expect("it is open");
        answered.await.expect("it is answered");
    }
}
