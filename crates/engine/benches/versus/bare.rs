//! The log alone: the same bytes made durable, and nothing behind them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use jeton_register::disk::RealDisk;
use jeton_register::embedded::{Embedded, Options};
use jeton_register::{Batch, Log, Registers, Slot, Written};
use tokio::sync::{mpsc, oneshot};

use crate::callers::Contender;

/// About what an entry with one addition takes.
const ENTRY_BYTES: usize = 68;

/// A thread that writes what has come, as one batch, and then answers.
pub struct BareLog {
    queue: mpsc::Sender<(u64, oneshot::Sender<()>)>,
}

impl BareLog {
    pub fn open(folder: &Path) -> Self {
        let registers =
            Embedded::open(RealDisk::new(folder).expect("a folder"), Options::default()).expect("a log");
        let (queue, mut requests) = mpsc::channel::<(u64, oneshot::Sender<()>)>(8192);
        std::thread::spawn(move || {
            let slots: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
            let mut received = Vec::new();
            let mut flights = std::collections::VecDeque::new();
            let mut trim = 0;
            loop {
                received.clear();
                let count = futures_executor::block_on(requests.recv_many(&mut received, 2048));
                if count == 0 {
                    return;
                }
                let mut batch = Batch::new();
                let mut answers = Vec::with_capacity(count);
                for (counter, answer) in received.drain(..) {
                    let partition = (counter % 256) as u16;
                    let slot = slots[usize::from(partition)].fetch_add(1, Ordering::Relaxed) + 1;
                    batch.push(Log::partition(partition), Slot(slot), &[7; ENTRY_BYTES]);
                    answers.push(answer);
                }
                let permit = registers.admit(batch.len(), batch.value_bytes()).expect("room");
                flights.push_back((registers.write(batch, permit), answers));
                // Two on their way, as the engine has.
                while flights.len() >= 2 {
                    let Some((writing, answers)) = flights.pop_front() else { break };
                    let written = futures_executor::block_on(writing).expect("written");
                    assert!(written.iter().all(|one| *one == Written::Fresh));
                    for answer in answers {
                        let _ = answer.send(());
                    }
                }
                if requests.is_empty() {
                    while let Some((writing, answers)) = flights.pop_front() {
                        futures_executor::block_on(writing).expect("written");
                        for answer in answers {
                            let _ = answer.send(());
                        }
                    }
                }
                trim += count;
                if trim > 200_000 {
                    trim = 0;
                    for (partition, slot) in slots.iter().enumerate() {
                        let through = Slot(slot.load(Ordering::Relaxed).saturating_sub(64));
                        if through > Slot::ZERO {
                            futures_executor::block_on(
                                registers.trim(Log::partition(partition as u16), through),
                            )
                            .expect("trimmed");
                        }
                    }
                }
            }
        });
        Self { queue }
    }
}

impl Contender for BareLog {
    async fn add(&self, counter: u64, _: u64) {
        let (answer, answered) = oneshot::channel();
        self.queue.send((counter, answer)).await.expect("it is open");
        answered.await.expect("it is answered");
    }
}
