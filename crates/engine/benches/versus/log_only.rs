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

use jeton_register::disk::RealDisk;
use jeton_register::embedded::{Embedded, Options};
use jeton_register::{Batch, Failure, Log, Registers, Slot, Written};
use tokio::sync::{mpsc, oneshot};

use crate::callers::Contender;

/// About what an entry with one addition takes.
const ENTRY_BYTES: usize = 68;

/// Registers that are kept before the log is trimmed: as much as the engine keeps.
const KEPT: u64 = 500_000;

const IN_FLIGHT_MAX: usize = 4;

type Ask = (u64, oneshot::Sender<()>);
type Writing = Pin<Box<dyn Future<Output = Result<Vec<Written>, Failure>> + Send>>;

pub struct BareLog {
    queue: mpsc::Sender<Ask>,
}

impl BareLog {
    pub fn open(folder: &Path) -> Self {
        let disk = RealDisk::new(folder).expect("a folder");
        let registers = Arc::new(Embedded::open(disk, Options::default()).expect("a log"));
        let (queue, asks) = mpsc::channel(8192);
        let (done, trims) = std::sync::mpsc::channel::<Vec<u64>>();
        let trimmer = registers.clone();
        std::thread::spawn(move || {
            for slots in trims {
                let trims = slots.iter().zip(0..).filter(|(slot, _)| **slot > 0);
                let trims: Vec<_> =
                    trims.map(|(slot, log)| trimmer.trim(Log::partition(log), Slot(*slot))).collect();
                trims.into_iter().for_each(|trim| futures_executor::block_on(trim).expect("trimmed"));
            }
        });
        std::thread::spawn(move || futures_executor::block_on(serve(registers, asks, done)));
        Self { queue }
    }
}

async fn serve(
    registers: Arc<Embedded<RealDisk>>,
    mut asks: mpsc::Receiver<Ask>,
    trims: std::sync::mpsc::Sender<Vec<u64>>,
) {
    let mut in_flight: VecDeque<(Writing, Vec<oneshot::Sender<()>>)> = VecDeque::new();
    let mut received: Vec<Ask> = Vec::new();
    let mut slots = vec![0; 256];
    let mut since = 0;
    loop {
        let written = poll_fn(|context| {
            if let Some((writing, _)) = in_flight.front_mut()
                && let Poll::Ready(written) = writing.as_mut().poll(context)
            {
                return Poll::Ready(Some(written.expect("written")));
            }
            if in_flight.len() >= IN_FLIGHT_MAX {
                return Poll::Pending;
            }
            asks.poll_recv_many(context, &mut received, 2048).map(|_| None)
        })
        .await;
        if let Some(written) = written {
            assert!(written.iter().all(|one| *one == Written::Fresh));
            let (_, answers) = in_flight.pop_front().expect("it was polled");
            for answer in answers {
                let _ = answer.send(());
            }
            continue;
        }
        if received.is_empty() {
            return;
        }
        // One register per partition, as the engine has one entry: what comes for one partition goes together.
        received.sort_unstable_by_key(|(counter, _)| counter % 256);
        let mut batch = Batch::new();
        for group in received.chunk_by(|a, b| a.0 % 256 == b.0 % 256) {
            let partition = (group[0].0 % 256) as u16;
            slots[usize::from(partition)] += 1;
            let slot = Slot(slots[usize::from(partition)]);
            batch.push_with(Log::partition(partition), slot, |bytes| {
                bytes.resize(bytes.len() + group.len() * ENTRY_BYTES, 7)
            });
        }
        since += received.len() as u64;
        if since > KEPT {
            since = 0;
            let _ = trims.send(slots.iter().map(|slot: &u64| slot.saturating_sub(8)).collect());
        }
        let permit = registers.admit(batch.len(), batch.value_bytes()).expect("room");
        let answers = received.drain(..).map(|(_, answer)| answer).collect();
        in_flight.push_back((Box::pin(registers.write(batch, permit)), answers));
    }
}

impl Contender for BareLog {
    async fn add(&self, counter: u64, _: u64) {
        let (answer, answered) = oneshot::channel();
        self.queue.send((counter, answer)).await.expect("it is open");
        answered.await.expect("it is answered");
    }
}
