//! Group commit with a general database: a thread takes the waiting requests and commits one synced fjall
//! batch with a row per counter and a row per id. Values come from memory and ids are not looked up, both in
//! favour of fjall.

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
                for (_, _, reply) in received.drain(..) {
                    let _ = reply.send(());
                }
            }
        });
        Self { queue }
    }
}

impl Contender for FjallGroup {
    async fn add(&self, counter: u64, number: u64) {
        let (reply, done) = oneshot::channel();
        self.queue.send((counter, number, reply)).await.expect("it is open");
        done.await.expect("a response");
    }
}
