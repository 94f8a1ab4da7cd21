//! The log only: receives, writes and responds as a shard does, and decides and remembers nothing.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use jeton_wal::disk::RealDisk;
use jeton_wal::{Batch, DurableAt, LogId, Options, Slot, Wal};
use tokio::sync::{mpsc, oneshot};

use crate::callers::Contender;

/// About the size of an entry with one addition.
const ENTRY_BYTES: usize = 68;

/// Entries between trims, as in the engine.
const KEPT: u64 = 500_000;

const IN_FLIGHT_MAX: usize = 4;

type Request = (u64, oneshot::Sender<()>);

pub struct BareLog {
    queue: mpsc::Sender<Request>,
}

impl BareLog {
    pub fn open(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("a folder");
        let log = Arc::new(Wal::open(disk, Options::default()).expect("a log"));
        let (queue, requests) = mpsc::channel(8192);
        let (done, trims) = std::sync::mpsc::channel::<Vec<u64>>();
        let trimmer = log.clone();
        std::thread::spawn(move || {
            for slots in trims {
                let trims = slots.iter().zip(0..).filter(|(slot, _)| **slot > 0);
                let trims: Vec<_> = trims.map(|(slot, log)| (LogId(log), Slot(*slot))).collect();
                let trimmed = trimmer.trim(&trims).expect("space for trims");
                futures_executor::block_on(trimmed).expect("trimmed");
            }
        });
        std::thread::spawn(move || futures_executor::block_on(serve(log, requests, done)));
        Self { queue }
    }
}

async fn serve(
    log: Arc<Wal<RealDisk>>,
    mut requests: mpsc::Receiver<Request>,
    trims: std::sync::mpsc::Sender<Vec<u64>>,
) {
    let mut in_flight: VecDeque<(DurableAt, Vec<oneshot::Sender<()>>)> = VecDeque::new();
    let mut received: Vec<Request> = Vec::new();
    let mut slots = vec![0; 256];
    let mut since = 0;
    loop {
        let written = poll_fn(|context| {
            if let Some((writing, _)) = in_flight.front_mut()
                && let Poll::Ready(written) = Pin::new(writing).poll(context)
            {
                written.expect("written");
                return Poll::Ready(Some(()));
            }
            if in_flight.len() >= IN_FLIGHT_MAX {
                return Poll::Pending;
            }
            requests.poll_recv_many(context, &mut received, 2048).map(|_| None)
        })
        .await;
        if written.is_some() {
            let (_, replies) = in_flight.pop_front().expect("it was polled");
            for reply in replies {
                let _ = reply.send(());
            }
            continue;
        }
        if received.is_empty() {
            return;
        }
        // One entry per partition, as in the engine.
        received.sort_unstable_by_key(|(counter, _)| counter % 256);
        let mut batch = Batch::new();
        for group in received.chunk_by(|a, b| a.0 % 256 == b.0 % 256) {
            let partition = (group[0].0 % 256) as u16;
            slots[usize::from(partition)] += 1;
            let slot = Slot(slots[usize::from(partition)]);
            batch.push_with(LogId(partition), slot, |bytes| {
                bytes.resize(bytes.len() + group.len() * ENTRY_BYTES, 7)
            });
        }
        since += received.len() as u64;
        if since > KEPT {
            since = 0;
            let _ = trims.send(slots.iter().map(|slot: &u64| slot.saturating_sub(8)).collect());
        }
        let reservation = log.reserve(batch.len(), batch.entry_bytes()).expect("space");
        let replies = received.drain(..).map(|(_, reply)| reply).collect();
        in_flight.push_back((log.append(&batch, reservation).expect("a batch with a reservation"), replies));
    }
}

impl Contender for BareLog {
    async fn add(&self, counter: u64, _: u64) {
        let (reply, done) = oneshot::channel();
        self.queue.send((counter, reply)).await.expect("it is open");
        done.await.expect("a response");
    }
}
