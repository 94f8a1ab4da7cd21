//! The clients: their operations and ids.

use std::collections::BTreeMap;

use jeton_core::{Cell, Change, Check, Column, Format, Formats, OpId, Operation, Secret, TableId, Value};

use crate::rng::Rng;

/// Rows whose counters are only added to.
const ADD_ONLY_ROWS: [&str; 3] = ["a0", "a1", "a2"];
/// Rows with any change.
const MIXED_ROWS: [&str; 2] = ["m0", "m1"];
const COLUMNS: [&str; 2] = ["f:x", "f:y"];

#[derive(Debug, Default)]
pub struct Client {
    pub name: String,
    /// By table: epoch and last sequence number.
    sessions: BTreeMap<u32, (u64, u64)>,
    /// The highest values that it read of add-only counters.
    pub seen: BTreeMap<Cell, i64>,
    /// Whether requests and responses are often lost.
    pub lossy: bool,
    /// How far its clock is behind the wall clock of the machine, in milliseconds.
    pub behind: u64,
}

pub fn is_add_only(cell: &Cell) -> bool {
    cell.row_and_column().0.first() == Some(&b'a')
}

pub fn cells(secret: &Secret, table: u32) -> Vec<Cell> {
    let rows = ADD_ONLY_ROWS.iter().chain(&MIXED_ROWS);
    rows.flat_map(|row| COLUMNS.iter().map(|column| cell(secret, table, row, column))).collect()
}

/// Whether two rows of the first table share a partition.
pub fn rows_share_partition(secret: &Secret) -> bool {
    let [one, other, ..] = ADD_ONLY_ROWS.map(|row| secret.partition(TableId(1), row.as_bytes()));
    one == other
}

fn cell(secret: &Secret, table: u32, row: &str, column: &str) -> Cell {
    let column = Column::parse(column.as_bytes()).unwrap_or_default();
    Cell::new(secret, TableId(table), row.as_bytes(), &column).expect("the row is short")
}

impl Client {
    /// The next sequenced id of its present epoch.
    pub fn next_number(&mut self, table: u32) -> OpId {
        let (epoch, seq) = self.sessions.entry(table).or_insert((1, 0));
        *seq += 1;
        OpId::sequenced(&self.name, *epoch, *seq).expect("the id is within all limits")
    }

    pub fn new(number: usize, rng: &mut Rng) -> Self {
        let behind = if rng.one_in(3) { rng.below(4_000) } else { rng.below(20) };
        Self { name: format!("c{number}"), lossy: rng.one_in(3), behind, ..Self::default() }
    }

    /// An id for a new operation. `number` is unique to the operation; `wall` is the wall clock of the
    /// machine in milliseconds.
    pub fn id(&mut self, table: u32, formats: Formats, number: u64, wall: u64, rng: &mut Rng) -> OpId {
        let taken: Vec<Format> = formats.iter().collect();
        // Some clients use a format that the table does not accept.
        let format = if rng.one_in(60) { *rng.pick(&Format::ALL) } else { *rng.pick(&taken) };
        // Some ids are dated in the future, and some before the window.
        let dated = match rng.below(24) {
            0 => wall + rng.below(6_000),
            1 => wall.saturating_sub(rng.below(700_000)),
            _ => wall.saturating_sub(self.behind + rng.below(30)),
        };
        let id = match format {
            Format::Uuid7 => OpId::uuid7(u128::from(dated) << 80 | 7 << 76 | 0b10 << 62 | u128::from(number)),
            Format::Ulid => Ok(OpId::Ulid(u128::from(dated) << 80 | u128::from(number))),
            Format::Event => OpId::event(&self.name, &number.to_string(), dated),
            Format::Opaque => OpId::opaque(format!("o{number}").as_bytes()),
            Format::Sequenced => {
                let (epoch, seq) = self.sessions.entry(table).or_insert((1, 0));
                match rng.below(40) {
                    0 | 1 => (*epoch, *seq) = (*epoch + 1, 0),
                    2 => *seq += 200,
                    // The time as epoch, from a clock that is ahead.
                    3 if rng.one_in(4) => (*epoch, *seq) = ((*epoch + 1).max(wall + rng.below(6_000)), 0),
                    _ => {}
                }
                *seq += 1;
                let (epoch, seq) = (*epoch, *seq);
                // A fenced process of the client that still sends, with sequence numbers of its own.
                let stale = epoch > 1 && rng.one_in(12);
                let (epoch, seq) = if stale { (epoch - 1, 1_000_000 + number) } else { (epoch, seq) };
                // An epoch that would fence all later ones.
                let epoch = if rng.one_in(40) { u64::MAX - number } else { epoch };
                OpId::sequenced(&self.name, epoch, seq)
            }
        };
        id.expect("the id is within all limits")
    }
}

pub fn operation(secret: &Secret, table: u32, (id, wall): (Option<OpId>, u64), rng: &mut Rng) -> Operation {
    let add_only = rng.below(10) < 6;
    let rows: &[&str] = if add_only { &ADD_ONLY_ROWS } else { &MIXED_ROWS };
    let row = *rng.pick(rows);
    let count = if rng.one_in(5) { rng.within(2, 4) } else { 1 };
    let mut changes = Vec::new();
    for _ in 0..count {
        let change = if add_only { Change::Add(rng.below(100) as i64) } else { mixed(wall, rng) };
        let column = *rng.pick(&COLUMNS);
        changes.push((cell(secret, table, row, column), change));
    }
    Operation::batch(id, changes).expect("the operation is within all limits")
}

fn mixed(wall: u64, rng: &mut Rng) -> Change {
    match rng.below(24) {
        0..4 => Change::Add(rng.below(200) as i64 - 100),
        4..10 => {
            let delta = rng.below(60) as i64 - 30;
            let min = (!rng.one_in(4)).then(|| rng.below(20) as i64 - 10);
            let max = (!rng.one_in(4)).then(|| 10 + rng.below(60) as i64);
            Change::AddWithin { delta, min, max }
        }
        10 | 11 => Change::Set(rng.below(100) as i64),
        12 => Change::Reset,
        13 => Change::Delete,
        14 => {
            let most = if rng.one_in(4) { 1_500 } else { 300 };
            Change::Put(vec![rng.draw() as u8; rng.below(most) as usize].into())
        }
        15 => Change::Check(match rng.below(4) {
            0 => Check::Absent,
            1 => Check::Present,
            2 => Check::ExpiresWithin { min: 0, max: *rng.pick(&[wall + 2_000, u64::MAX - 1]) },
            _ => Check::Holds(Value::Counter(rng.below(10) as i64)),
        }),
        16 => Change::Add(*rng.pick(&[i64::MAX, i64::MIN, i64::MAX - 5])),
        17..21 => {
            let soon = *rng.pick(&[300, 3_000, 60_000]);
            Change::Expire(match rng.below(8) {
                0 => None,
                1 => Some(wall.saturating_sub(rng.below(1_000))),
                2 => Some(u64::MAX - rng.below(2)),
                _ => Some(wall + rng.below(soon)),
            })
        }
        _ => {
            let most = if rng.one_in(6) { 2_000 } else { 4 };
            Change::Append(vec![*rng.pick(b"07-x"); rng.below(most) as usize].into())
        }
    }
}

/// Another payload for the same id, in the same row.
pub fn other_payload(operation: &Operation, rng: &mut Rng) -> Operation {
    let mut changes: Vec<(Cell, Change)> = operation.changes().cloned().collect();
    let at = rng.index(changes.len());
    let change = &mut changes[at].1;
    *change = match change {
        Change::Add(delta) if *delta < 1_000 => Change::Add(delta.saturating_add(1)),
        _ => Change::Add(7),
    };
    Operation::batch(operation.id().cloned(), changes).expect("as large as the one before")
}
