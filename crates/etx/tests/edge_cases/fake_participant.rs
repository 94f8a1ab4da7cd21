//! An in-memory database that can be blocked, and registers that can be full.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    AttemptId, Branch, Branches, CoordinatorId, DecisionLocation, Dialect, Outcome, PreparedBranch,
    ProcedureCall, ProcedureLogic, ProcedureResult, QueryResult, Resource, ResourceError, Value, Vote, Xid,
};
use jeton_register::memory::MemoryRegisters;
use jeton_register::{Batch, Blob, Error, Extent, LogId, LogKind, Registers, Slot, WritePermit, WriteResult};
use tokio::sync::watch;

pub const CLUSTER: u32 = 5;

/// A gate: callers wait while it is closed.
pub struct Gate(watch::Sender<bool>);

impl Gate {
    fn open() -> Self {
        Self(watch::Sender::new(true))
    }

    pub fn set(&self, is_open: bool) {
        self.0.send_replace(is_open);
    }

    async fn pass(&self) {
        let passed = self.0.subscribe().wait_for(|is_open| *is_open).await.is_ok();
        assert!(passed, "the fake owns the sender");
    }
}

pub struct Fake {
    number: u8,
    state: Mutex<State>,
    /// The call that panics next, once.
    pub panics_in: Mutex<Option<&'static str>>,
    /// Whether no branch can begin.
    pub is_unavailable: AtomicBool,
    pub votes: Gate,
    pub commits: Gate,
}

#[derive(Default)]
pub struct State {
    pub prepared: BTreeSet<Xid>,
    pub committed: BTreeSet<Xid>,
}

impl Fake {
    pub fn new(number: u8) -> Arc<Self> {
        Arc::new(Self {
            number,
            state: Mutex::default(),
            panics_in: Mutex::default(),
            is_unavailable: AtomicBool::new(false),
            votes: Gate::open(),
            commits: Gate::open(),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it has the lock")
    }

    fn panic_if_planned(&self, call: &str) {
        let planned =
            self.panics_in.lock().expect("the lock is released before the panic").take_if(|one| *one == call);
        assert!(planned.is_none(), "a planned panic in {call}");
    }

    fn end(&self, name: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let mut state = self.state();
        match outcome {
            Outcome::Abort => drop(state.prepared.remove(name)),
            Outcome::Commit if state.prepared.remove(name) => drop(state.committed.insert(*name)),
            Outcome::Commit if state.committed.contains(name) => {}
            Outcome::Commit => {
                let (resource, why) = ("a fake".to_owned(), "it was rolled back".to_owned());
                return Err(ResourceError::Damage { resource, gid: name.gid(), why });
            }
        }
        Ok(())
    }
}

/// Implements the traits of the crate for a shared fake.
pub struct Shared(pub Arc<Fake>);

struct FakeBranch {
    fake: Arc<Fake>,
    name: Xid,
}

#[async_trait]
impl Resource for Shared {
    fn name(&self) -> &str {
        "a fake"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Question
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        self.0.panic_if_planned("begin");
        if self.0.is_unavailable.load(Ordering::SeqCst) {
            let (resource, why) = ("a fake".to_owned(), "it is unreachable".to_owned());
            return Err(ResourceError::Unavailable { resource, why });
        }
        let name = attempt.branch(CLUSTER.into(), self.0.number, 1);
        Ok(Box::new(FakeBranch { fake: Arc::clone(&self.0), name }))
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        Ok(self.0.state().prepared.iter().map(|name| PreparedBranch { name: *name, age: None }).collect())
    }

    async fn locks(&self, _: &Xid) -> Result<Vec<String>, ResourceError> {
        Ok(Vec::new())
    }

    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        self.0.end(branch, outcome)
    }

    async fn forget(&self, _: u128) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn fence(&self, _: CoordinatorId) -> Result<(), ResourceError> {
        Ok(())
    }
}

#[async_trait]
impl Branch for FakeBranch {
    fn name(&self) -> Xid {
        self.name
    }

    async fn execute(&mut self, statement: &str, _: &[Value]) -> Result<QueryResult, ResourceError> {
        match statement {
            "work" => Ok(QueryResult { rows: Vec::new(), count: 1 }),
            wrong => {
                let (resource, code) = ("a fake".to_owned(), "wrong".to_owned());
                Err(ResourceError::Statement { resource, code, why: wrong.to_owned() })
            }
        }
    }

    async fn vote(&mut self) -> Vote {
        self.fake.votes.pass().await;
        self.fake.panic_if_planned("vote");
        self.fake.state().prepared.insert(self.name);
        Vote::Yes
    }

    async fn commit_deciding(self: Box<Self>, _: &[u8]) -> Result<Vec<u8>, ResourceError> {
        Err(ResourceError::keeps_no_decisions("a fake"))
    }

    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), ResourceError> {
        if outcome == Outcome::Commit {
            self.fake.commits.pass().await;
        }
        self.fake.end(&self.name, outcome)
    }
}

/// Executes the parameters as a statement in both databases.
pub struct Both;

#[async_trait]
impl ProcedureLogic for Both {
    fn decision_location(&self, _: &str) -> Option<DecisionLocation> {
        Some(DecisionLocation::Registers)
    }

    async fn execute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError> {
        let statement = String::from_utf8_lossy(&request.parameters);
        for number in [0, 1] {
            branches.execute(number, &statement, &[]).await?;
        }
        Ok(ProcedureResult::Done(Bytes::from_static(b"done")))
    }
}

/// Registers that can be switched to full or unreadable.
#[derive(Default)]
pub struct BoundedRegisters {
    inner: MemoryRegisters,
    pub is_full: AtomicBool,
    pub is_unreadable: AtomicBool,
}

impl Registers for BoundedRegisters {
    fn admit(&self, writes: usize, bytes: usize) -> Result<WritePermit, Error> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(Error::Full("they are bounded".into())),
            false => self.inner.admit(writes, bytes),
        }
    }

    fn write(
        &self,
        batch: Batch,
        permit: WritePermit,
    ) -> impl Future<Output = Result<Vec<WriteResult>, Error>> + Send + 'static {
        self.inner.write(batch, permit)
    }

    async fn read(&self, log: LogId, from: Slot, limit: usize) -> Result<Vec<(Slot, Bytes)>, Error> {
        match self.is_unreadable.load(Ordering::SeqCst) {
            true => Err(Error::Unavailable("they are unreadable".into())),
            false => self.inner.read(log, from, limit).await,
        }
    }

    async fn extent(&self, log: LogId) -> Result<Extent, Error> {
        self.inner.extent(log).await
    }

    async fn trim(&self, log: LogId, through: Slot) -> Result<(), Error> {
        self.inner.trim(log, through).await
    }

    async fn retire(&self, kind: LogKind, below: u128) -> Result<(), Error> {
        self.inner.retire(kind, below).await
    }

    async fn put_blob(&self, name: &str, blob: Blob) -> Result<bool, Error> {
        self.inner.put_blob(name, blob).await
    }

    async fn get_blob(&self, name: &str) -> Result<Option<Blob>, Error> {
        self.inner.get_blob(name).await
    }
}
