//! Start of a process: the steps of `Engine::open`, on the simulated disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;

use jeton_engine::ids::IdIndex;
use jeton_engine::internals::{Health, ResponseDispatcher, StoreTime, Tables, Worker};
use jeton_engine::{Checkpointer, Options, Recovered, Stores, find, replay_log};
use jeton_wal::disk::FaultDisk;
use tokio::sync::mpsc;

use crate::clock::SimClock;
use crate::filters::Filters;
use crate::log::SimLog;
use crate::process::SimProcess;
use crate::values::SimValues;

impl SimProcess {
    /// Starts a process on this disk; the error is a message.
    pub fn open(
        disk: &FaultDisk,
        values: &Arc<SimValues>,
        clock: &SimClock,
        options: &Options,
        secret: [u8; 16],
    ) -> Result<Self, String> {
        let log = SimLog::open(disk.clone(), options.segment_bytes);
        let log = Arc::new(log.map_err(|error| format!("the log: {error}"))?);
        let (ids, note) =
            IdIndex::open(Arc::new(disk.clone()), "ids").map_err(|error| format!("the id index: {error}"))?;
        let stores = Stores { values: values.clone(), ids: Arc::new(ids) };
        let found = find(&*log, &stores, &note, usize::MAX, || secret).map_err(|error| error.to_string())?;
        let catalog = Arc::new(found.catalog);
        let known = (found.secret, found.partitions, &found.positions);
        let Recovered { shards, logged, .. } =
            replay_log(&*log, &stores, &catalog, known, options).map_err(|error| error.to_string())?;
        let tables = Tables::new(log.clone(), catalog, found.catalog_version);
        let time = StoreTime::begin(clock.clone(), logged, options.clock_ahead_max);
        let time = Arc::new(time.map_err(|error| error.to_string())?);
        let health = Arc::new(Health::new(options.shards, 0, logged));
        let (job_sender, jobs) = std_mpsc::channel();
        let (mut workers, mut senders) = (Vec::new(), Vec::new());
        for (number, shard) in shards.into_iter().enumerate() {
            let (sender, queue) = mpsc::channel(options.queue_max);
            senders.push(sender);
            let worker = Worker {
                yields_first: false,
                number,
                shard,
                log: log.clone(),
                catalog: tables.catalog().clone(),
                time: time.clone(),
                health: health.clone(),
                options: options.clone(),
                queue,
                jobs: job_sender.clone(),
                responses: ResponseDispatcher::inline(),
                queued_requests: Arc::default(),
            };
            workers.push(Some(Box::pin(worker.run()) as _));
        }
        Ok(Self {
            checkpointer: Checkpointer::new(
                log.clone(),
                stores.clone(),
                (found.positions, found.filters),
                options.filter_row_bytes,
            ),
            log,
            stores,
            tables,
            health,
            time,
            secret: found.secret,
            workers,
            senders,
            jobs,
            waiting: VecDeque::new(),
            messages: VecDeque::new(),
            filters: Filters::default(),
        })
    }
}
