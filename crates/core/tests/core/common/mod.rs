//! Helpers of the tests: ids, rows, settings, an in-memory store, and a *world*: one store with its
//! catalogue, partitions, logs and time.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;

pub use std::time::Duration;

pub use jeton_core::limits::*;
pub use jeton_core::*;
pub use proptest::prelude::*;

mod store;

pub use store::Store;

pub const SECRET: Secret = Secret::new(*b"secret of a test");

/// Start time of the worlds, in milliseconds since 1970.
pub const START: u64 = 1_700_000_000_000;

/// Clock readings of concurrent threads differ by less than this.
pub const SLACK: u64 = 60_000;

/// Both windows and the session lease of `settings()`, in milliseconds.
pub const WINDOW: u64 = 60_000;

/// The skew of `settings()`, in milliseconds.
pub const SKEW: u64 = 5_000;

pub const TABLE: TableId = TableId(1);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// `millis` milliseconds after the start of the world.
pub const fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

/// A UUIDv7 dated `millis` milliseconds after the start of the world.
pub fn uuid7(millis: u64, number: u64) -> OpId {
    uuid7_at(START + millis, number)
}

/// A UUIDv7 dated `unix_millis` milliseconds after 1970.
pub fn uuid7_at(unix_millis: u64, number: u64) -> OpId {
    OpId::uuid7_from(unix_millis, number.into())
}

/// A UUIDv7 with the version and variant set in arbitrary bits.
pub fn any_uuid7() -> impl Strategy<Value = OpId> {
    any::<u128>().prop_map(|bits| OpId::uuid7(bits & !(0xf << 76 | 3 << 62) | 7 << 76 | 2 << 62).unwrap())
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

/// Two rows of different partitions.
pub fn apart() -> (Cell, Cell) {
    let first = cell("0");
    let other = (1..).map(|n: u32| cell(&n.to_string())).find(|cell| cell.partition() != first.partition());
    (first, other.unwrap())
}

/// Rows of one partition with different routing keys; the first is `0`.
pub fn together(count: usize) -> Vec<Cell> {
    let home = cell("0").partition();
    let rows = (0..).map(|n: u32| cell(&n.to_string()));
    rows.filter(|cell| cell.partition() == home).take(count).collect()
}

pub fn every_format() -> Formats {
    Format::ALL.into_iter().fold(Formats::NONE, Formats::and)
}

/// Every format, small filters, and writes without an id allowed.
pub fn settings() -> TableSettings {
    TableSettings {
        formats: every_format(),
        dated_window: ms(WINDOW),
        opaque_window: ms(WINDOW),
        skew: ms(SKEW),
        session_lease: ms(WINDOW),
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

pub fn put(text: &str) -> Change {
    Change::Put(text.as_bytes().into())
}

pub fn append(text: &str) -> Change {
    Change::Append(text.as_bytes().into())
}

pub fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().into())
}

pub fn hashes(operation: &Operation) -> Hashes {
    Hashes::of(operation, &SECRET, &mut Vec::new())
}

/// The entry of `step` with one item.
pub fn entry_of(step: LogPosition, push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    log_entry::begin(step, &mut bytes);
    push(&mut bytes);
    bytes
}

/// Applies an entry, as a recovery does.
pub fn replay(table: &Table, partition: &mut Partition, store: &mut Store, slot: u64, entry: &[u8]) {
    let entry = Entry::read(slot, entry).unwrap();
    partition.advance(entry.step()).unwrap();
    for item in entry {
        match item.unwrap() {
            LogItem::Operation(operation, mut decision) => {
                complete(&operation, &mut decision, store).unwrap();
                partition.apply(table, &operation, hashes(&operation), &decision, store).unwrap();
            }
            LogItem::Branch(step) => {
                let key = SECRET.branch_key(step.name()).in_partition(partition.id());
                partition.apply_branch(&step, key, store).unwrap();
            }
        }
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
    /// The limit of the sessions of a partition.
    pub session_bytes_max: usize,
}

/// What a crash leaves besides the log and the catalogue.
#[derive(Debug, Clone, Default)]
struct Checkpoint {
    log: usize,
    store: Store,
    partitions: Vec<(PartitionId, Vec<u8>)>,
    sessions: Rows<Client>,
    branches: Rows<BranchName>,
    filters: HashMap<u32, Vec<u8>>,
}

type Rows<K> = BTreeMap<(PartitionId, K), Vec<u8>>;

fn update_rows<K: Ord>(rows: &mut Rows<K>, id: PartitionId, changed: Vec<(K, Option<Vec<u8>>)>) {
    for (key, row) in changed {
        match row {
            Some(row) => rows.insert((id, key), row),
            None => rows.remove(&(id, key)),
        };
    }
}

fn new_partition(id: PartitionId, session_bytes_max: usize) -> Partition {
    let mut partition = Partition::new(id);
    partition.sessions().limit(session_bytes_max);
    partition
}

/// Filters of the eras of the only table.
pub struct Filters<'a>(pub &'a HashMap<u32, Vec<u8>>);

impl StoredEras for Filters<'_> {
    fn open(&self, _: TableId, era: u32) -> Option<impl io::Read> {
        self.0.get(&era).map(Vec::as_slice)
    }
}

/// The filters of an era as bytes.
pub fn filters_of(era: &Era) -> Vec<u8> {
    let mut bytes = Vec::new();
    era.write_filters(&mut bytes).unwrap();
    bytes
}

/// A world with `settings()`.
pub fn world() -> World {
    World::new(settings())
}

impl World {
    pub fn new(settings: TableSettings) -> Self {
        Self {
            catalog: Catalog::default().create("clicks", settings, Timestamp::ZERO).unwrap(),
            partitions: BTreeMap::new(),
            store: Store::default(),
            now: at(0),
            log: Vec::new(),
            checkpoint: Checkpoint::default(),
            session_bytes_max: SESSION_BYTES_MAX,
        }
    }

    pub fn table(&self) -> &Table {
        self.catalog.get(TABLE).unwrap()
    }

    pub fn partition(&mut self, of: &Cell) -> &mut Partition {
        let partition = self.partitions.entry(of.partition());
        partition.or_insert_with(|| new_partition(of.partition(), self.session_bytes_max))
    }

    /// Sets the time to `millis` milliseconds after the start.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        self.now = at(millis);
        self
    }

    /// Changes the table's settings.
    pub fn change(&mut self, settings: TableSettings) {
        self.try_change(settings).unwrap();
    }

    pub fn try_change(&mut self, settings: TableSettings) -> Result<(), SettingsError> {
        self.catalog = self.catalog.replaced(self.table().change(settings, self.now)?);
        Ok(())
    }

    /// Decides an operation now; nothing changes.
    pub fn decide(&mut self, operation: &Operation) -> Verdict {
        let now = self.now;
        let step = self.partition(operation.first_cell()).next_step(now);
        let table = self.catalog.get(TABLE).unwrap();
        let partition = &self.partitions[&operation.partition()];
        let Ok(verdict) = partition.decide(step, table, operation, hashes(operation), &mut self.store);
        verdict
    }

    /// Submits an operation in an entry of its own: decides it, and if it is new, logs and applies it.
    pub fn submit(&mut self, operation: &Operation) -> Verdict {
        let verdict = self.decide(operation);
        if let Verdict::Fresh(decision) = &verdict {
            self.write(operation.partition(), |out| log_entry::push(operation, decision, out));
            let partition = self.partitions.get_mut(&operation.partition()).unwrap();
            let table = self.catalog.get(TABLE).unwrap();
            partition.apply(table, operation, hashes(operation), decision, &mut self.store).unwrap();
            partition.sessions().evict_for((TABLE, 0));
        }
        verdict
    }

    /// Writes an entry with one item to the log of a partition.
    fn write(&mut self, id: PartitionId, push: impl FnOnce(&mut Vec<u8>)) {
        let partition = self.partitions.get_mut(&id).unwrap();
        let step = partition.next_step(self.now);
        self.log.push((id, step.slot, entry_of(step, push)));
        partition.advance(step).unwrap();
    }

    /// Prepares a branch in an entry of its own.
    pub fn prepare(&mut self, branch: &Branch, of: &Cell) -> BranchVerdict {
        self.submit_branch(branch.name(), of, |partition, step, key, store| {
            partition.decide_prepare(step, branch, key, store)
        })
    }

    /// Commits or aborts a branch in an entry of its own.
    pub fn finish(
        &mut self,
        name: &BranchName,
        of: &Cell,
        outcome: BranchOutcome,
        others_finished: bool,
    ) -> BranchVerdict {
        self.submit_branch(name, of, |partition, step, key, store| {
            partition.decide_finish(step, (name, key), outcome, others_finished, store)
        })
    }

    fn submit_branch(
        &mut self,
        name: &BranchName,
        of: &Cell,
        decide: impl FnOnce(&Partition, LogPosition, IdKey, &mut Store) -> Result<BranchVerdict, Infallible>,
    ) -> BranchVerdict {
        let (now, id) = (self.now, of.partition());
        let key = SECRET.branch_key(name).in_partition(id);
        let step = self.partition(of).next_step(now);
        let Ok(verdict) = decide(&self.partitions[&id], step, key, &mut self.store);
        if let BranchVerdict::Fresh(item) = &verdict {
            self.write(id, |out| log_entry::push_branch(item, out));
            let partition = self.partitions.get_mut(&id).unwrap();
            partition.apply_branch(item, key, &mut self.store).unwrap();
        }
        verdict
    }

    pub fn id_status(&mut self, cell: &Cell, id: &OpId) -> IdStatus {
        self.partition(cell);
        let (partition, key) =
            (&self.partitions[&cell.partition()], SECRET.id_key(cell, id, &mut Vec::new()));
        let table = self.catalog.get(TABLE).unwrap();
        let Ok(status) = partition.id_status(self.now, table, id, key, &mut self.store);
        status
    }

    pub fn change_cell(&mut self, id: &OpId, cell: &Cell, change: Change) -> Verdict {
        self.submit(&Operation::single(Some(id.clone()), cell.clone(), change).unwrap())
    }

    pub fn change_row(&mut self, id: &OpId, row: &str, change: Change) -> Verdict {
        self.change_cell(id, &cell(row), change)
    }

    /// Adds to the counter `a`.
    pub fn add(&mut self, id: &OpId, delta: i64) -> Verdict {
        self.change_row(id, "a", Change::Add(delta))
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
            partition.sessions().forget_expired(now);
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
            update_rows(&mut checkpoint.sessions, *id, partition.sessions().take_changed());
            update_rows(&mut checkpoint.branches, *id, partition.branches().take_changed());
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
        let filters = Filters(&checkpoint.filters);
        let catalog = Catalog::restore(&self.catalog.encode(), &Budget::default(), self.now, &filters);
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
        for partition in partitions.values_mut() {
            partition.sessions().limit(self.session_bytes_max);
        }
        let mut world = Self {
            catalog: catalog.unwrap(),
            partitions,
            store: checkpoint.store.clone(),
            now: self.now,
            log: self.log.clone(),
            checkpoint: checkpoint.clone(),
            session_bytes_max: self.session_bytes_max,
        };
        let table = world.catalog.get(TABLE).unwrap();
        for (id, slot, bytes) in &self.log[checkpoint.log..] {
            let partition =
                world.partitions.entry(*id).or_insert_with(|| new_partition(*id, self.session_bytes_max));
            replay(table, partition, &mut world.store, *slot, bytes);
        }
        world
    }

    pub fn maintain(&mut self, maintenance: Maintenance) {
        match maintenance {
            Maintenance::Tidy => self.tidy(),
            Maintenance::Checkpoint => self.checkpoint(),
            Maintenance::Crash => *self = self.recovered(),
            Maintenance::CrashWithoutCheckpoint => *self = self.replayed(),
        }
    }
}

/// Events that must not change any verdict.
#[derive(Debug, Clone, Copy)]
pub enum Maintenance {
    Tidy,
    Checkpoint,
    Crash,
    CrashWithoutCheckpoint,
}

pub fn any_maintenance() -> impl Strategy<Value = Maintenance> {
    use Maintenance::*;
    prop_oneof![4 => Just(Tidy), 2 => Just(Checkpoint), 1 => Just(Crash), 1 => Just(CrashWithoutCheckpoint)]
}

/// Assertions on a verdict.
pub trait VerdictExt: Sized {
    /// The operation is new and its changes are made.
    fn fresh(self) -> OperationDecision;
    /// A retry.
    fn replayed(self) -> OperationResult;
    fn rejected(self) -> Rejection;

    /// The counter after the only change, which is made.
    #[track_caller]
    fn applied(self) -> i64 {
        let answer = self.fresh().answer;
        assert!(answer.applied, "a bound refused it: {answer:?}");
        answer.values.as_slice()[0].unwrap()
    }

    /// The counters in a refusal by a bound.
    #[track_caller]
    fn refused(self) -> Vec<Option<i64>> {
        let answer = self.fresh().answer;
        assert!(!answer.applied, "no bound refused it: {answer:?}");
        answer.values.as_slice().to_vec()
    }
}

impl VerdictExt for Verdict {
    #[track_caller]
    fn fresh(self) -> OperationDecision {
        let Self::Fresh(decision) = self else { panic!("not new, but {self:?}") };
        decision
    }

    #[track_caller]
    fn replayed(self) -> OperationResult {
        let Self::Replay(answer) = self else { panic!("not a replay, but {self:?}") };
        answer
    }

    #[track_caller]
    fn rejected(self) -> Rejection {
        let Self::Rejected(rejection) = self else { panic!("not rejected, but {self:?}") };
        rejection
    }
}

/// Whether the operation was accepted as new.
pub fn is_fresh(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fresh(_))
}
