//! The memory engine: registers that last as long as the process. For tests and for the simulator, which lets its requests
//! fail as a database far away would.
//!
//! What must hold: everything happens at the moment of the call, in the order of the calls (except a write that is [late](Faults::late));
//! only answers are lost or late. The same seed and the same calls give the same answers.

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

pub use self::faults::Faults;
use self::faults::{Chance, Mishap};
use crate::{Batch, Extent, Failure, Log, Permit, Registers, Row, Slot, Space, Written};

/// Registers in memory. A handle: clones are the same store.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    logs: BTreeMap<Log, Cells>,
    /// The logs below these are retired.
    retired: BTreeMap<Space, u128>,
    rows: BTreeMap<String, Row>,
    faults: Faults,
    chance: Chance,
    /// Writes that are still on their way.
    late: Vec<Batch>,
    /// Whether answers wait for [`Memory::release`].
    holding: bool,
    held: BTreeSet<u64>,
    wakers: BTreeMap<u64, Waker>,
    next_ticket: u64,
}

#[derive(Debug, Default)]
struct Cells {
    extent: Extent,
    values: BTreeMap<Slot, Bytes>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            logs: BTreeMap::new(),
            retired: BTreeMap::new(),
            rows: BTreeMap::new(),
            faults: Faults::default(),
            chance: Chance(0),
            late: Vec::new(),
            holding: false,
            held: BTreeSet::new(),
            wakers: BTreeMap::new(),
            next_ticket: 0,
        }
    }
}

impl Memory {
    /// An empty store without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store whose requests fail as the seed decides.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        let memory = Self::new();
        memory.state().chance = Chance(seed);
        memory.set_faults(faults);
        memory
    }

    /// From now on, requests fail so often.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// From now on, what is asked happens, but its answer waits until it is released.
    pub fn hold(&self) {
        self.state().holding = true;
    }

    /// How many answers wait to be released.
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Gives the answer that is the `index`th of those waiting (0 is the oldest). Whether there was one.
    pub fn release(&self, index: usize) -> bool {
        let mut state = self.state();
        let Some(&ticket) = state.held.iter().nth(index) else { return false };
        state.held.remove(&ticket);
        let waker = state.wakers.remove(&ticket);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Gives all answers that wait, and holds no more back.
    pub fn release_all(&self) {
        self.state().holding = false;
        while self.release(0) {}
    }

    /// Lets every write happen that is still on its way.
    pub fn deliver_late(&self) {
        let mut state = self.state();
        for batch in std::mem::take(&mut state.late) {
            state.write(&batch);
        }
    }

    /// Nothing in here is left half done by a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer<T: Send + Unpin + 'static>(
        &self,
        act: impl FnOnce(&mut State, Mishap) -> Result<T, Failure>,
    ) -> Answer<T> {
        let mut state = self.state();
        state.deliver_some();
        let faults = state.faults;
        let mishap = state.chance.mishap(&faults);
        let result = match mishap {
            Mishap::Refused => Err(Failure::Unavailable("refused, as was wished for".into())),
            mishap => act(&mut state, mishap),
        };
        let result = match mishap {
            Mishap::Lost | Mishap::Late => {
                Err(Failure::Unknown("the answer was lost, as was wished for".into()))
            }
            _ => result,
        };
        let polls = if let Mishap::Delayed(polls) = mishap { polls } else { 0 };
        let ticket = state.holding.then(|| {
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.held.insert(ticket);
            ticket
        });
        Answer { memory: self.clone(), result: Some(result), polls, ticket }
    }
}

impl State {
    fn write(&mut self, batch: &Batch) -> Vec<Written> {
        batch
            .iter()
            .map(|(log, slot, value)| {
                if self.is_retired(log) {
                    return Written::Trimmed;
                }
                let cells = self.logs.entry(log).or_default();
                if slot <= cells.extent.trimmed {
                    return Written::Trimmed;
                }
                if let Some(value) = cells.values.get(&slot) {
                    return Written::Taken(value.clone());
                }
                cells.values.insert(slot, Bytes::copy_from_slice(value));
                cells.extent.last = cells.extent.last.max(slot);
                Written::Fresh
            })
            .collect()
    }

    fn is_retired(&self, log: Log) -> bool {
        self.retired.get(&log.space).is_some_and(|&below| log.id < below)
    }

    fn extent(&self, log: Log) -> Extent {
        if self.is_retired(log) {
            return Extent::RETIRED;
        }
        self.logs.get(&log).map(|cells| cells.extent).unwrap_or_default()
    }

    /// Lets some of the late writes happen.
    fn deliver_some(&mut self) {
        let mut index = 0;
        while index < self.late.len() {
            if self.chance.draw().is_multiple_of(8) {
                let batch = self.late.remove(index);
                self.write(&batch);
            } else {
                index += 1;
            }
        }
    }
}

impl Registers for Memory {
    fn write(
        &self,
        batch: Batch,
        _permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, Failure>> + Send + 'static {
        self.answer(|state, mishap| {
            if mishap == Mishap::Late {
                state.late.push(batch);
                return Ok(Vec::new());
            }
            Ok(state.write(&batch))
        })
    }

    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Failure>> + Send {
        self.answer(|state, _| {
            let through = state.extent(log).trimmed;
            if from <= through {
                return Err(Failure::Trimmed { log, through });
            }
            let values = state.logs.get(&log).into_iter().flat_map(|cells| cells.values.range(from..));
            Ok(values.take(limit).map(|(&slot, value)| (slot, value.clone())).collect())
        })
    }

    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, Failure>> + Send {
        self.answer(|state, _| Ok(state.extent(log)))
    }

    fn trim(&self, log: Log, through: Slot) -> impl Future<Output = Result<(), Failure>> + Send {
        self.answer(|state, _| {
            if state.is_retired(log) {
                return Ok(());
            }
            let cells = state.logs.entry(log).or_default();
            if through > cells.extent.trimmed {
                cells.extent.trimmed = through;
                cells.values.retain(|&slot, _| slot > through);
            }
            Ok(())
        })
    }

    fn retire(&self, space: Space, below: u128) -> impl Future<Output = Result<(), Failure>> + Send {
        self.answer(|state, _| {
            space.check_dated()?;
            let mark = state.retired.entry(space).or_default();
            *mark = below.max(*mark);
            let below = *mark;
            state.logs.retain(|log, _| log.space != space || log.id >= below);
            Ok(())
        })
    }

    fn put_row(&self, name: &str, row: Row) -> impl Future<Output = Result<bool, Failure>> + Send {
        self.answer(|state, _| {
            if state.rows.get(name).is_some_and(|there| there.slot > row.slot) {
                return Ok(false);
            }
            state.rows.insert(name.to_owned(), row);
            Ok(true)
        })
    }

    fn get_row(&self, name: &str) -> impl Future<Output = Result<Option<Row>, Failure>> + Send {
        self.answer(|state, _| Ok(state.rows.get(name).cloned()))
    }
}

/// An answer that may have to wait.
struct Answer<T> {
    memory: Memory,
    result: Option<Result<T, Failure>>,
    /// How often it is to be polled in vain.
    polls: u8,
    ticket: Option<u64>,
}

impl<T: Unpin> Future for Answer<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls > 0 {
            self.polls -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(ticket) = self.ticket {
            let mut state = self.memory.state();
            if state.held.contains(&ticket) {
                state.wakers.insert(ticket, context.waker().clone());
                return Poll::Pending;
            }
        }
        Poll::Ready(self.result.take().expect("an answer is taken once"))
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.memory.state();
            state.held.remove(&ticket);
            state.wakers.remove(&ticket);
        }
    }
}
