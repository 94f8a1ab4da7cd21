//! The log alone: the same bytes made durable, and nothing behind them.
//!
//! It takes, writes and answers as the engine's shard does, two batches on their way at a time; what is missing is everything
//! that the engine decides and remembers.

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

/// About what an entry with one addition takes.
const ENTRY_BYTES: usize = 68;

/// Entries that are kept before the log is trimmed: as many as the engine keeps.
const KEPT: u64 = 500_000;

const IN_FLIGHT_MAX: usize = 4;

type Ask = (u64, oneshot::Sender<()>);

pub struct BareLog {
    queue: mpsc::Sender<Ask>,
}

impl BareLog {
    pub fn open(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("a folder");
        let log = Arc::new(Wal::open(disk, Options::default()).expect("a log"));
        let (queue, asks) = mpsc::channel(8192);
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
        std::thread::spawn(move || futures_executor::block_on(serve(log, asks, done)));
        Self { queue }
    }
}

async fn serve(
    log: Arc<Wal<RealDisk>>,
    mut asks: mpsc::Receiver<Ask>,
    trims: std::sync::mpsc::Sender<Vec<u64>>,
) {
    let mut in_flight: VecDeque<(DurableAt, Vec<oneshot::Sender<()>>)> = VecDeque::new();
    let mut received: Vec<Ask> = Vec::new();
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
            asks.poll_recv_many(context, &mut received, 2048).map(|_| None)
        })
        .await;
        if written.is_some() {
            let (_, answers) = in_flight.pop_front().expect("it was polled");
            for answer in answers {
                let _ = answer.send(());
            }
            continue;
        }
        if received.is_empty() {
            return;
        }
        // One entry per partition, as in the engine: what comes for one partition goes together.
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
        let answers = received.drain(..).map(|(_, answer)| answer).collect();
        in_flight.push_back((log.append(&batch, reservation).expect("a batch with a reservation"), answers));
    }
}

impl Contender for BareLog {
    async fn add(&self, counter: u64, _: u64) {
        let (answer, answered) = oneshot::channel();
        self.queue.send((counter, answer)).await.expect("it is open");
        answered.await.expect("it is answered");
    }
}
