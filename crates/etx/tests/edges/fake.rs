//! A database in memory that can be held up, and registers that can be full.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    Answer, Attempt, Branch, BranchName, Branches, Dialect, Executed, Executor, Failure, Home, Logic,
    Outcome, Request, RequestId, Resource, Standing, Try, Value, Vote,
};
use jeton_register::memory::Memory;
use jeton_register::{Batch, Extent, Log, Permit, Registers, Row, Slot, Space, Written};
use tokio::sync::watch;

pub const CLUSTER: u32 = 5;

/// A door that whoever comes waits at while it is shut.
pub struct Door(watch::Sender<bool>);

impl Door {
    fn open() -> Self {
        Self(watch::Sender::new(true))
    }

    pub fn set(&self, is_open: bool) {
        self.0.send_replace(is_open);
    }

    async fn pass(&self) {
        let passed = self.0.subscribe().wait_for(|is_open| *is_open).await.is_ok();
        assert!(passed, "a door without a house");
    }
}

pub struct Fake {
    number: u8,
    books: Mutex<Books>,
    pub votes: Door,
    pub commits: Door,
}

#[derive(Default)]
pub struct Books {
    pub prepared: BTreeSet<BranchName>,
    pub committed: BTreeSet<BranchName>,
}

impl Fake {
    pub fn new(number: u8) -> Arc<Self> {
        Arc::new(Self { number, books: Mutex::default(), votes: Door::open(), commits: Door::open() })
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books open")
    }

    fn end(&self, name: &BranchName, outcome: Outcome) -> Result<(), Failure> {
        let mut books = self.books();
        match outcome {
            Outcome::Abort => drop(books.prepared.remove(name)),
            Outcome::Commit if books.prepared.remove(name) => drop(books.committed.insert(*name)),
            Outcome::Commit if books.committed.contains(name) => {}
            Outcome::Commit => {
                let (resource, why) = ("a fake".to_owned(), "it was rolled back".to_owned());
                return Err(Failure::Damage { resource, gid: name.gid(), why });
            }
        }
        Ok(())
    }
}

/// It has the traits of the crate, for which it must be shared.
pub struct Shared(pub Arc<Fake>);

struct FakeBranch {
    fake: Arc<Fake>,
    name: BranchName,
}

#[async_trait]
impl Resource for Shared {
    fn name(&self) -> &str {
        "a fake"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Question
    }

    async fn begin(&self, attempt: Attempt) -> Result<Box<dyn Branch>, Failure> {
        let name = BranchName {
            cluster: CLUSTER.into(),
            request: attempt.request,
            attempt: attempt.number,
            home: attempt.home,
            executor: attempt.executor,
            resource: self.0.number,
            connection: 1,
        };
        Ok(Box::new(FakeBranch { fake: Arc::clone(&self.0), name }))
    }

    async fn prepared(&self) -> Result<Vec<Standing>, Failure> {
        Ok(self.0.books().prepared.iter().map(|name| Standing { name: *name, age: None }).collect())
    }

    async fn locks(&self, _: &BranchName) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    async fn decide(&self, branch: &BranchName, outcome: Outcome) -> Result<(), Failure> {
        self.0.end(branch, outcome)
    }

    async fn write_decision(&self, _: RequestId, _: Try, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Err(passing("it keeps no decisions"))
    }

    async fn read_decision(&self, _: RequestId, _: Try) -> Result<Option<Vec<u8>>, Failure> {
        Err(passing("it keeps no decisions"))
    }

    async fn forget(&self, _: u128) -> Result<(), Failure> {
        Ok(())
    }

    async fn fence(&self, _: Executor) -> Result<(), Failure> {
        Ok(())
    }
}

#[async_trait]
impl Branch for FakeBranch {
    fn name(&self) -> BranchName {
        self.name
    }

    async fn execute(&mut self, statement: &str, _: &[Value]) -> Result<Executed, Failure> {
        match statement {
            "work" => Ok(Executed { rows: Vec::new(), count: 1 }),
            wrong => {
                let (resource, code) = ("a fake".to_owned(), "wrong".to_owned());
                Err(Failure::Statement { resource, code, why: wrong.to_owned() })
            }
        }
    }

    async fn vote(&mut self) -> Vote {
        self.fake.votes.pass().await;
        self.fake.books().prepared.insert(self.name);
        Vote::Yes
    }

    async fn commit_deciding(self: Box<Self>, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Err(passing("it keeps no decisions"))
    }

    async fn decide(self: Box<Self>, outcome: Outcome) -> Result<(), Failure> {
        if outcome == Outcome::Commit {
            self.fake.commits.pass().await;
        }
        self.fake.end(&self.name, outcome)
    }
}

pub fn passing(why: &str) -> Failure {
    Failure::Passing { resource: "a fake".to_owned(), why: why.to_owned() }
}

/// Executes the parameters as a statement, in both databases.
pub struct Both;

#[async_trait]
impl Logic for Both {
    fn home(&self, _: &str) -> Option<Home> {
        Some(Home::Registers)
    }

    async fn compute(&self, request: &Request, branches: &mut Branches) -> Result<Answer, Failure> {
        let statement = String::from_utf8_lossy(&request.parameters);
        for number in [0, 1] {
            branches.execute(number, &statement, &[]).await?;
        }
        Ok(Answer::Done(Bytes::from_static(b"done")))
    }
}

/// Registers that have no room while they are told so.
#[derive(Default)]
pub struct Narrow {
    inner: Memory,
    pub is_full: AtomicBool,
}

impl Registers for Narrow {
    fn admit(&self, writes: usize, bytes: usize) -> Result<Permit, jeton_register::Failure> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(jeton_register::Failure::Full("they are narrow".into())),
            false => self.inner.admit(writes, bytes),
        }
    }

    fn write(
        &self,
        batch: Batch,
        permit: Permit,
    ) -> impl Future<Output = Result<Vec<Written>, jeton_register::Failure>> + Send + 'static {
        self.inner.write(batch, permit)
    }

    fn read(
        &self,
        log: Log,
        from: Slot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Slot, Bytes)>, jeton_register::Failure>> + Send {
        self.inner.read(log, from, limit)
    }

    fn extent(&self, log: Log) -> impl Future<Output = Result<Extent, jeton_register::Failure>> + Send {
        self.inner.extent(log)
    }

    fn trim(
        &self,
        log: Log,
        through: Slot,
    ) -> impl Future<Output = Result<(), jeton_register::Failure>> + Send {
        self.inner.trim(log, through)
    }

    fn retire(
        &self,
        space: Space,
        below: u128,
    ) -> impl Future<Output = Result<(), jeton_register::Failure>> + Send {
        self.inner.retire(space, below)
    }

    fn put_row(
        &self,
        name: &str,
        row: Row,
    ) -> impl Future<Output = Result<bool, jeton_register::Failure>> + Send {
        self.inner.put_row(name, row)
    }

    fn get_row(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Row>, jeton_register::Failure>> + Send {
        self.inner.get_row(name)
    }
}
