//! The memory engine: registers that last as long as the process. For tests and for the simulator, which
//! injects the faults of a remote database.
//!
//! Invariant: a request takes effect when it is called, in the order of the calls (except a
//! [late](Faults::late) one); only responses are lost or late. The same seed and the same calls give the
//! same responses.

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

pub use self::faults::Faults;
use self::faults::{InjectedFault, Rng};
use crate::{
    Batch, Blob, Error, Extent, LogId, LogKind, RegisterMap, Registers, Slot, WritePermit, WriteResult,
    check_object,
};

/// Registers in memory. A handle: clones are the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryRegisters {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    map: RegisterMap,
    blobs: BTreeMap<String, Blob>,
    objects: BTreeMap<String, Bytes>,
    faults: Faults,
    rng: Rng,
    /// Requests that have not taken effect yet.
    late: Vec<LateRequest>,
    /// Whether responses wait for [`MemoryRegisters::release`].
    holding: bool,
    held: BTreeSet<u64>,
    wakers: BTreeMap<u64, Waker>,
    next_ticket: u64,
}

#[derive(Debug)]
enum LateRequest {
    Write(Batch),
    Trim(LogId, Slot),
    PutObject(String, Bytes),
    DeleteObjects(Vec<String>),
}

impl MemoryRegisters {
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store with faults that the seed determines.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        let memory = Self::new();
        memory.state().rng = Rng(seed);
        memory.set_faults(faults);
        memory
    }

    /// Sets how often requests fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// From now on responses wait until they are released. Requests take effect at once.
    pub fn hold(&self) {
        self.state().holding = true;
    }

    /// How many responses wait to be released.
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Releases the `index`th waiting response (0 is the oldest). Returns whether there is one.
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

    /// Releases all waiting responses, and holds no more back.
    pub fn release_all(&self) {
        self.state().holding = false;
        while self.release(0) {}
    }

    /// Lets all late requests take effect.
    pub fn deliver_late(&self) {
        let mut state = self.state();
        for request in std::mem::take(&mut state.late) {
            state.take_effect(request);
        }
    }

    /// Changes the bytes of an object, as a failing disk would.
    pub fn damage_object(&self, name: &str) {
        let mut state = self.state();
        let object = state.objects.get_mut(name).expect("the object exists");
        let mut bytes = object.to_vec();
        bytes[0] ^= 1;
        *object = bytes.into();
    }

    /// Changes the state, or will later if the request is late.
    fn change(&self, request: LateRequest) -> Response<()> {
        self.respond(|state, fault| {
            if fault == InjectedFault::Late {
                state.late.push(request);
            } else {
                state.take_effect(request);
            }
            Ok(())
        })
    }

    /// No panic leaves the state inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respond<T: Send + Unpin + 'static>(
        &self,
        act: impl FnOnce(&mut State, InjectedFault) -> Result<T, Error>,
    ) -> Response<T> {
        let mut state = self.state();
        state.deliver_some();
        let faults = state.faults;
        let fault = state.rng.fault(&faults);
        let result = match fault {
            InjectedFault::Refused => Err(Error::Unavailable("injected fault: refused".into())),
            fault => act(&mut state, fault),
        };
        let result = match fault {
            InjectedFault::Lost | InjectedFault::Late => {
                Err(Error::Unknown("injected fault: the response was lost".into()))
            }
            _ => result,
        };
        let polls = if let InjectedFault::Delayed(polls) = fault { polls } else { 0 };
        let ticket = state.holding.then(|| {
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.held.insert(ticket);
            ticket
        });
        Response { memory: self.clone(), result: Some(result), polls, ticket }
    }
}

impl State {
    fn write(&mut self, batch: &Batch) -> Vec<WriteResult> {
        batch.iter().map(|(log, slot, value)| self.map.write(log, slot, value)).collect()
    }

    fn take_effect(&mut self, request: LateRequest) {
        match request {
            LateRequest::Write(batch) => drop(self.write(&batch)),
            LateRequest::Trim(log, through) => self.map.trim(log, through),
            LateRequest::PutObject(name, bytes) => drop(self.objects.entry(name).or_insert(bytes)),
            LateRequest::DeleteObjects(names) => names.iter().for_each(|name| drop(self.objects.remove(name))),
        }
    }

    /// Lets some of the late requests take effect.
    fn deliver_some(&mut self) {
        let mut index = 0;
        while index < self.late.len() {
            if self.rng.draw().is_multiple_of(8) {
                let request = self.late.remove(index);
                self.take_effect(request);
            } else {
                index += 1;
            }
        }
    }
}

impl Registers for MemoryRegisters {
    fn write(
        &self,
        batch: Batch,
        _permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        self.respond(|state, fault| {
            if fault == InjectedFault::Late {
                state.late.push(LateRequest::Write(batch));
                return Ok(Vec::new());
            }
            Ok(state.write(&batch))
        })
    }

    fn read(
        &self,
        log: LogId,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, Error>> + Send {
        self.respond(|state, _| state.map.read(log, from, limit))
    }

    fn extent(&self, log: LogId) -> impl Future<Output = Result<Extent, Error>> + Send {
        self.respond(|state, _| Ok(state.map.extent(log)))
    }

    fn trim(&self, log: LogId, through: Slot) -> impl Future<Output = Result<(), Error>> + Send {
        self.change(LateRequest::Trim(log, through))
    }

    fn retire(&self, kind: LogKind, below: u128) -> impl Future<Output = Result<(), Error>> + Send {
        self.respond(|state, _| {
            kind.check_dated()?;
            state.map.retire(kind, below);
            Ok(())
        })
    }

    fn put_blob(&self, name: &str, blob: Blob) -> impl Future<Output = Result<bool, Error>> + Send {
        self.respond(|state, _| {
            if state.blobs.get(name).is_some_and(|there| there.version > blob.version) {
                return Ok(false);
            }
            state.blobs.insert(name.to_owned(), blob);
            Ok(true)
        })
    }

    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Option<Blob>, Error>> + Send {
        self.respond(|state, _| Ok(state.blobs.get(name).cloned()))
    }

    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        check_object(name, bytes.len())?;
        self.change(LateRequest::PutObject(name.to_owned(), bytes)).await
    }

    fn get_object(&self, name: &str) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send {
        self.respond(|state, _| Ok(state.objects.get(name).cloned()))
    }

    fn delete_objects(&self, names: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        self.change(LateRequest::DeleteObjects(names))
    }

    fn list_objects(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send {
        self.respond(|state, _| {
            let first = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
            let names = state.objects.range::<str, _>((first, Bound::Unbounded)).map(|(name, _)| name);
            Ok(names.take_while(|name| name.starts_with(prefix)).take(limit).cloned().collect())
        })
    }
}

/// A response that may have to wait.
struct Response<T> {
    memory: MemoryRegisters,
    result: Option<Result<T, Error>>,
    /// How many polls return nothing.
    polls: u8,
    ticket: Option<u64>,
}

impl<T: Unpin> Future for Response<T> {
    type Output = Result<T, Error>;

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
        Poll::Ready(self.result.take().expect("a future is not polled after it was ready"))
    }
}

impl<T> Drop for Response<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.memory.state();
            state.held.remove(&ticket);
            state.wakers.remove(&ticket);
        }
    }
}
