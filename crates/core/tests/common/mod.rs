//! Helpers of the tests: ids, rows, settings, an in-memory store, and a *world*: one store with its
//! catalogue, partitions, logs and time.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jeton_core::{
    Branch, BranchName, BranchOutcome, BranchVerdict, Catalog, Cell, Change, Client, Column, DedupLocation,
    Entry, Era, Format, Formats, Generation, Hashes, IdKey, LogItem, MissingIdPolicy, Mode, OpId, Operation,
    OperationDecision, OperationResult, Partition, PartitionId, Rejection, Secret, Table, TableId,
    TableSettings, Timestamp, Value, Verdict, complete, log_entry,
};

mod store;

pub use store::Store;

pub const SECRET: Secret = Secret::new(*b"secret of a test");

/// Start time of the worlds, in milliseconds since 1970.
pub const START: u64 = 1_700_000_000_000;

/// Clock readings of concurrent threads differ by less than this.
pub const SLACK: u64 = 60_000;

pub const TABLE: TableId = TableId(1);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// `millis` milliseconds after the start of the world.
pub const fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

/// A UUIDv7 dated `millis` milliseconds after the start of the world.
pub fn minted(millis: u64, number: u64) -> OpId {
    minted_at(START + millis, number)
}

/// A UUIDv7 dated `unix_millis` milliseconds after 1970.
pub fn minted_at(unix_millis: u64, number: u64) -> OpId {
    OpId::uuid7_from(unix_millis, number.into())
}

pub fn opaque(text: &str) -> OpId {
    OpId::opaque(text.as_bytes()).unwrap()
}

pub fn sequenced(client: &str, epoch: u64, seq: u64) -> OpId {
    OpId::sequenced(client, epoch, seq).unwrap()
}

pub fn cell(row: &str) -> Cell {
    Cell::new(&SECRET, TABLE, row.as_bytes(), &Column::unnamed()).unwrap()
}

/// Another column of the row.
pub fn column(row: &str, column: &str) -> Cell {
    Cell::new(&SECRET, TABLE, row.as_bytes(), &Column::parse(column.as_bytes()).unwrap()).unwrap()
}

pub fn every_format() -> Formats {
    Format::ALL.into_iter().fold(Formats::NONE, Formats::and)
}

/// Every format, small filters, and writes without an id allowed.
pub fn settings() -> TableSettings {
    TableSettings {
        formats: every_format(),
        dated_window: ms(60_000),
        opaque_window: ms(60_000),
        skew: ms(5_000),
        session_lease: ms(60_000),
        without_id: MissingIdPolicy::AtMostOnce,
        expected_ids: 100,
        memory_cap: 1 << 24,
        ..TableSettings::default()
    }
}

pub fn probabilistic(target: f64) -> TableSettings {
    TableSettings { mode: Mode::Probabilistic { target }, ..settings() }
}

pub fn within(delta: i64, min: Option<i64>, max: Option<i64>) -> Change {
    Change::AddWithin { delta, min, max }
}

impl Store {
    /// Drops expired generations, as a store on disk would.
    pub fn forget(&mut self, now: Timestamp) {
        self.answers.retain(|(generation, _), _| !generation.expired(now));
    }
}

/// A store with one table.
#[derive(Clone)]
pub struct World {
    pub catalog: Catalog,
    pub partitions: BTreeMap<PartitionId, Partition>,
    pub store: Store,
    pub now: Timestamp,
    /// The entries of all partitions, in the order of writing.
    pub log: Vec<(PartitionId, u64, Vec<u8>)>,
    checkpoint: Checkpoint,
}

/// What a crash leaves besides the log and the catalogue.
#[derive(Debug, Clone, Default)]
struct Checkpoint {
    log: usize,
    store: Store,
    partitions: Vec<(PartitionId, Vec<u8>)>,
    sessions: BTreeMap<(PartitionId, Client), Vec<u8>>,
    branches: BTreeMap<(PartitionId, BranchName), Vec<u8>>,
    filters: HashMap<u32, Vec<u8>>,
}

/// The filters of an era as bytes.
pub fn filters_of(era: &Era) -> Vec<u8> {
    let mut bytes = Vec::new();
    era.write_filters(&mut bytes).unwrap();
    bytes
}

impl World {
    pub fn new(settings: TableSettings) -> Self {
        Self {
            catalog: Catalog::default().create("clicks", settings).unwrap(),
            partitions: BTreeMap::new(),
            store: Store::default(),
            now: at(0),
            log: Vec::new(),
            checkpoint: Checkpoint::default(),
        }
    }

    pub fn table(&self) -> &Table {
        self.catalog.get(TABLE).unwrap()
    }

    pub fn partition(&mut self, of: &Cell) -> &mut Partition {
        self.partitions.entry(of.partition()).or_insert_with(|| Partition::new(of.partition()))
    }

    /// Sets the time to `millis` milliseconds after the start.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        self.now = at(millis);
        self
    }

    /// Changes the table's settings.
    pub fn change(&mut self, settings: TableSettings) {
        self.catalog = self.catalog.replaced(self.table().change(settings, self.now).unwrap());
    }

    /// Decides an operation now; nothing changes.
    pub fn decide(&mut self, operation: &Operation) -> Verdict {
        let now = self.now;
        let step = self.partition(&operation.changes().next().unwrap().0).next_step(now);
        let table = self.catalog.get(TABLE).unwrap();
        let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
        let partition = &self.partitions[&operation.partition()];
        let Ok(verdict) = partition.decide(step, table, operation, hashes, &mut self.store);
        verdict
    }

    /// Submits an operation in an entry of its own: decides it, and if it is new, logs and applies it.
    pub fn submit(&mut self, operation: &Operation) -> Verdict {
        let verdict = self.decide(operation);
        if let Verdict::Fresh(decision) = &verdict {
            let id = operation.partition();
            let partition = self.partitions.get_mut(&id).unwrap();
            let step = partition.next_step(self.now);
            let mut bytes = Vec::new();
            log_entry::begin(step, &mut bytes);
            log_entry::push(operation, decision, &mut bytes);
            self.log.push((id, step.slot, bytes));
            partition.advance(step).unwrap();
            let table = self.catalog.get(TABLE).unwrap();
            let hashes = Hashes::of(operation, &SECRET, &mut Vec::new());
            partition.apply(table, operation, hashes, decision, &mut self.store).unwrap();
        }
        verdict
    }

    /// Prepares a branch in an entry of its own.
    pub fn prepare(&mut self, branch: &Branch, of: &Cell) -> BranchVerdict {
        let (now, id) = (self.now, of.partition());
        let key = SECRET.branch_key(branch.name()).in_partition(id);
        self.partition(of);
        let partition = &self.partitions[&id];
        let Ok(verdict) = partition.decide_prepare(partition.next_step(now), branch, key, &mut self.store);
        self.log_branch(id, key, verdict)
    }

    /// Commits or aborts a branch in an entry of its own.
    pub fn finish(
        &mut self,
        name: &BranchName,
        of: &Cell,
        outcome: BranchOutcome,
        others_finished: bool,
    ) -> BranchVerdict {
        let (now, id) = (self.now, of.partition());
        let key = SECRET.branch_key(name).in_partition(id);
        self.partition(of);
        let partition = &self.partitions[&id];
        let step = partition.next_step(now);
        let Ok(verdict) =
            partition.decide_finish(step, (name, key), outcome, others_finished, &mut self.store);
        self.log_branch(id, key, verdict)
    }

    fn log_branch(&mut self, id: PartitionId, key: IdKey, verdict: BranchVerdict) -> BranchVerdict {
        if let BranchVerdict::Fresh(branch_step) = &verdict {
            let partition = self.partitions.get_mut(&id).unwrap();
            let step = partition.next_step(self.now);
            let mut bytes = Vec::new();
            log_entry::begin(step, &mut bytes);
            log_entry::push_branch(branch_step, &mut bytes);
            self.log.push((id, step.slot, bytes));
            partition.advance(step).unwrap();
            partition.apply_branch(branch_step, key, &mut self.store).unwrap();
        }
        verdict
    }

    pub fn change_cell(&mut self, id: &OpId, cell: &Cell, change: Change) -> Verdict {
        self.submit(&Operation::single(Some(id.clone()), cell.clone(), change).unwrap())
    }

    pub fn change_row(&mut self, id: &OpId, row: &str, change: Change) -> Verdict {
        self.change_cell(id, &cell(row), change)
    }

    /// Adds to the counter `row`.
    pub fn add_to(&mut self, row: &str, id: &OpId, delta: i64) -> Verdict {
        self.change_row(id, row, Change::Add(delta))
    }

    /// Adds to the default counter.
    pub fn add(&mut self, id: &OpId, delta: i64) -> Verdict {
        self.add_to("a", id, delta)
    }

    pub fn batch(&mut self, id: &OpId, changes: &[(Cell, Change)]) -> Verdict {
        self.submit(&Operation::batch(Some(id.clone()), changes.to_vec()).unwrap())
    }

    pub fn value(&self, row: &str) -> Option<Value> {
        self.store.values.get(&cell(row)).cloned()
    }

    pub fn counter(&self, row: &str) -> i64 {
        self.value(row).map_or(0, |value| value.counter().unwrap())
    }

    /// Drops expired data, as maintenance does.
    pub fn tidy(&mut self) {
        let now = self.now;
        self.store.forget(now);
        for partition in self.partitions.values_mut() {
            partition.sessions().forget_idle(now);
        }
        for era in self.table().eras() {
            era.maintain(now);
        }
        if let Some(table) = self.table().without_past(now) {
            self.catalog = self.catalog.replaced(table);
        }
    }

    /// Stores everything but the catalogue, which is always stored.
    pub fn checkpoint(&mut self) {
        let checkpoint = &mut self.checkpoint;
        checkpoint.log = self.log.len();
        checkpoint.store = self.store.clone();
        checkpoint.partitions.clear();
        for (id, partition) in &mut self.partitions {
            checkpoint.partitions.push((*id, partition.encode()));
            for (client, row) in partition.sessions().take_changed() {
                match row {
                    Some(row) => checkpoint.sessions.insert((*id, client), row),
                    None => checkpoint.sessions.remove(&(*id, client)),
                };
            }
            for (name, row) in partition.branches().take_changed() {
                match row {
                    Some(row) => checkpoint.branches.insert((*id, name), row),
                    None => checkpoint.branches.remove(&(*id, name)),
                };
            }
        }
        let table = self.catalog.get(TABLE).unwrap();
        checkpoint.filters = table.eras().map(|era| (era.number, filters_of(era))).collect();
    }

    /// Recovers after a crash: from the catalogue, the log and the last checkpoint.
    pub fn recovered(&self) -> Self {
        self.recovered_from(&self.checkpoint)
    }

    /// Recovers from the catalogue and the whole log, without a checkpoint.
    pub fn replayed(&self) -> Self {
        self.recovered_from(&Checkpoint::default())
    }

    fn recovered_from(&self, checkpoint: &Checkpoint) -> Self {
        let empty = Catalog::decode(&self.catalog.encode()).unwrap();
        let filled = empty.get(TABLE).unwrap().refilled(|era| match checkpoint.filters.get(&era.number) {
            Some(filters) => era.read_filters(&mut filters.as_slice(), self.now),
            None => Ok(()),
        });
        let mut partitions: BTreeMap<PartitionId, Partition> = BTreeMap::new();
        for (id, row) in &checkpoint.partitions {
            partitions.insert(*id, Partition::decode(*id, row).unwrap());
        }
        for ((id, name), row) in &checkpoint.branches {
            partitions.get_mut(id).unwrap().branches().restore(*id, name.as_bytes(), row).unwrap();
        }
        partitions.values_mut().for_each(|partition| partition.branches().restored().unwrap());
        for ((id, client), row) in &checkpoint.sessions {
            partitions.get_mut(id).unwrap().sessions().restore(client.clone(), row).unwrap();
        }
        let mut world = Self {
            catalog: empty.replaced(filled.unwrap()),
            partitions,
            store: checkpoint.store.clone(),
            now: self.now,
            log: self.log.clone(),
            checkpoint: checkpoint.clone(),
        };
        for (id, slot, bytes) in &self.log[checkpoint.log..] {
            let partition = world.partitions.entry(*id).or_insert_with(|| Partition::new(*id));
            let entry = Entry::read(*slot, bytes).unwrap();
            partition.advance(entry.step()).unwrap();
            for one in entry {
                let (operation, mut decision) = match one.unwrap() {
                    LogItem::Operation(operation, decision) => (operation, decision),
                    LogItem::Branch(step) => {
                        let key = SECRET.branch_key(step.name()).in_partition(*id);
                        partition.apply_branch(&step, key, &mut world.store).unwrap();
                        continue;
                    }
                };
                complete(&operation, &mut decision, &mut world.store).unwrap();
                let table = world.catalog.get(TABLE).unwrap();
                let hashes = Hashes::of(&operation, &SECRET, &mut Vec::new());
                partition.apply(table, &operation, hashes, &decision, &mut world.store).unwrap();
            }
        }
        world
    }
}

/// Assertions on a verdict.
pub trait Judged: Sized {
    /// The operation is new and its changes are made.
    fn fresh(self) -> OperationDecision;
    /// A retry.
    fn replayed(self) -> OperationResult;
    fn rejected(self) -> Rejection;

    /// The counter after the only change, which is made.
    fn applied(self) -> i64 {
        let answer = self.fresh().answer;
        assert!(answer.applied, "a bound refused it: {answer:?}");
        answer.values.as_slice()[0].unwrap()
    }

    /// The counters in a refusal by a bound.
    fn refused(self) -> Vec<Option<i64>> {
        let answer = self.fresh().answer;
        assert!(!answer.applied, "no bound refused it: {answer:?}");
        answer.values.as_slice().to_vec()
    }
}

impl Judged for Verdict {
    #[track_caller]
    fn fresh(self) -> OperationDecision {
        match self {
            Self::Fresh(decision) => decision,
            other => panic!("not new, but {other:?}"),
        }
    }

    #[track_caller]
    fn replayed(self) -> OperationResult {
        match self {
            Self::Replay(answer) => answer,
            other => panic!("not a replay, but {other:?}"),
        }
    }

    #[track_caller]
    fn rejected(self) -> Rejection {
        match self {
            Self::Rejected(rejection) => rejection,
            other => panic!("not rejected, but {other:?}"),
        }
    }
}

/// Whether the operation was accepted as new.
pub fn is_fresh(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fresh(_))
}

/// The generation of the dedup record in the id index, if there is one.
pub fn generation(decision: &OperationDecision) -> Option<Generation> {
    match decision.memory {
        DedupLocation::Index { generation, .. } => Some(generation),
        _ => None,
    }
}
