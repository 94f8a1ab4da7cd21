//! Our log beside others, on the workload it was written for: groups of 256 entries of 90 bytes, one fsync
//! per group.
//!
//! Run by `cargo bench -p jeton-wal --bench logs`. All subjects are measured in one run, taking turns, so
//! that whatever else the machine does meets all of them; numbers of different runs do not compare.

mod callers;
mod files;
mod ours;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::report::{Report, Turn};

/// Entries per fsync.
pub const GROUP: usize = 256;
/// The content of an entry.
pub const VALUE: [u8; 90] = [0x5a; 90];
/// Logs that the entries of a group belong to.
pub const LOGS: usize = 16;

/// How often every subject gets its turn.
const TURNS: usize = 7;
/// How long a turn is.
const TURN: Duration = Duration::from_millis(1500);

/// Something that makes groups durable, one after the other.
pub trait Subject {
    /// The name in the report.
    fn name(&self) -> &str;

    /// Makes a group of entries durable. Returns their number.
    fn group(&mut self) -> usize;
}

fn main() {
    let folder = Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("the folder for the measurement can be made");
    ours::print_cost_of_staging(&folder.0.join("staging"));
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(ours::Ours::new(&folder.0.join("ours"))),
        Box::new(callers::Callers::new(&folder.0.join("callers"), 256)),
        Box::new(files::Bare::zeroed(&folder.0)),
        Box::new(files::Bare::allotted(&folder.0)),
        Box::new(files::Bare::growing(&folder.0)),
    ];
    measure(&mut subjects);
}

/// Measures the subjects in turns, and prints what was found.
pub fn measure(subjects: &mut [Box<dyn Subject>]) {
    let mut report = Report::new(subjects.iter().map(|subject| subject.name().to_owned()));
    for turn in 0..TURNS {
        for step in 0..subjects.len() {
            // Another one begins each time: no subject always follows the same one.
            let index = (turn + step) % subjects.len();
            report.add(index, run(&mut *subjects[index]));
        }
    }
    report.print();
}

fn run(subject: &mut dyn Subject) -> Turn {
    let start = Instant::now();
    let mut turn = Turn::default();
    while start.elapsed() < TURN {
        let before = Instant::now();
        turn.registers += subject.group();
        turn.groups.push(before.elapsed());
    }
    turn.elapsed = start.elapsed();
    turn
}

/// Removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
