//! The queues of the logs. The requests of a log are executed in order, in groups: a group is what arrived
//! during the previous one. Logs do not wait for each other.
//!
//! Invariants, as those of `jeton_register::WriteQueue`:
//! - *In order.* When a group fails, the writes of the log that were submitted before their callers could
//!   learn of it are refused.
//! - *Nothing else.* A write that is submitted because of the failure is not refused for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jeton_register::{Error, LogId, Slot, WritePermit, WriteResult};
use jeton_wal::AbortOnPanic;
use tokio::sync::{Notify, oneshot};

use crate::cluster::Cluster;
use crate::control::Control;
use crate::log_writer::{GROUP_BYTES_MAX, GROUP_WRITES_MAX, LogWriter, Write};
use crate::retirement::Retirement;

/// The most control rows that are remembered. A forgotten one costs a request.
const CONTROLS_MAX: usize = 16_384;

/// A request to one log. The permit is held until the response is sent.
pub enum Request {
    Write { writes: Vec<Write>, response: oneshot::Sender<Result<Vec<WriteResult>, Error>>, permit: Permit },
    Trim { through: Slot, response: oneshot::Sender<Result<(), Error>>, permit: Permit },
}

/// What counts a request as in flight, shared by the parts of a batch.
pub type Permit = Arc<Mutex<WritePermit>>;

pub struct Lanes {
    cluster: Arc<Cluster>,
    retirement: Arc<Retirement>,
    state: Mutex<State>,
    /// Notified when a lane ends.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// The logs that have a running task.
    queues: HashMap<LogId, VecDeque<Request>>,
    controls: HashMap<LogId, Control>,
}

enum Group {
    Writes(Vec<Request>),
    Trim(Slot, oneshot::Sender<Result<(), Error>>, Permit),
}

impl Lanes {
    pub fn new(cluster: Arc<Cluster>, retirement: Arc<Retirement>) -> Arc<Self> {
        Arc::new(Self { cluster, retirement, state: Mutex::default(), ended: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits requests together.
    pub fn submit(self: &Arc<Self>, requests: Vec<(LogId, Request)>) {
        let mut state = self.state();
        for (log, request) in requests {
            if let Some(queue) = state.queues.get_mut(&log) {
                queue.push_back(request);
                continue;
            }
            state.queues.insert(log, VecDeque::from([request]));
            tokio::spawn(Arc::clone(self).run(log));
        }
    }

    /// Waits until all lanes are empty.
    pub async fn drained(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state().queues.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Executes the requests of a log until there are none.
    async fn run(self: Arc<Self>, log: LogId) {
        // Without its task the lane would never respond.
        let _guard = AbortOnPanic;
        let control = self.state().controls.remove(&log);
        let mut writer = LogWriter { cluster: &self.cluster, retirement: &self.retirement, log, control };
        while let Some(group) = self.next_group(log, writer.control) {
            match group {
                Group::Trim(through, response, permit) => {
                    let result = writer.trim(through).await;
                    drop(permit);
                    drop(response.send(result));
                }
                Group::Writes(group) => self.write(&mut writer, group).await,
            }
        }
        self.ended.notify_waiters();
    }

    async fn write(&self, writer: &mut LogWriter<'_>, mut group: Vec<Request>) {
        let mut writes: Vec<Write> = Vec::new();
        for request in &mut group {
            if let Request::Write { writes: own, .. } = request {
                writes.append(&mut own.clone());
            }
        }
        match writer.write(&writes).await {
            Ok(results) => {
                let mut results = results.into_iter();
                for request in group {
                    if let Request::Write { writes, response, permit } = request {
                        drop(permit);
                        drop(response.send(Ok(results.by_ref().take(writes.len()).collect())));
                    }
                }
            }
            Err(error) => self.fail(writer.log, group, &error),
        }
    }

    /// The next group; without one the lane ends.
    fn next_group(&self, log: LogId, control: Option<Control>) -> Option<Group> {
        let mut state = self.state();
        let queue = state.queues.get_mut(&log)?;
        let (mut count, mut bytes) = (0, 0);
        let mut group = Vec::new();
        while let Some(request) = queue.pop_front() {
            match request {
                Request::Trim { through, response, permit } if group.is_empty() => {
                    return Some(Group::Trim(through, response, permit));
                }
                Request::Write { writes, response, permit } => {
                    count += writes.len();
                    bytes += writes.iter().map(|(_, value)| value.len()).sum::<usize>();
                    let fits = group.is_empty() || count <= GROUP_WRITES_MAX && bytes <= GROUP_BYTES_MAX;
                    let request = Request::Write { writes, response, permit };
                    if !fits {
                        queue.push_front(request);
                        break;
                    }
                    group.push(request);
                }
                trim @ Request::Trim { .. } => {
                    queue.push_front(trim);
                    break;
                }
            }
        }
        if !group.is_empty() {
            return Some(Group::Writes(group));
        }
        state.queues.remove(&log);
        if let Some(control) = control {
            if state.controls.len() >= CONTROLS_MAX {
                state.controls.clear();
            }
            state.controls.insert(log, control);
        }
        None
    }

    /// Fails a group, and refuses the writes that were submitted before its callers could know.
    fn fail(&self, log: LogId, group: Vec<Request>, error: &Error) {
        let mut state = self.state();
        let refusal = Error::Unavailable(format!("an earlier write failed: {error}"));
        let queued = state.queues.get_mut(&log).map(std::mem::take).unwrap_or_default();
        let (behind, trims): (Vec<_>, Vec<_>) =
            queued.into_iter().partition(|request| matches!(request, Request::Write { .. }));
        for (requests, error) in [(group, error), (behind, &refusal)] {
            for request in requests {
                if let Request::Write { response, permit, .. } = request {
                    drop(permit);
                    drop(response.send(Err(error.clone())));
                }
            }
        }
        state.queues.insert(log, trims.into());
    }
}
