//! Power failure at every disk operation: the index is left in the state of some commit, not older than the
//! last that returned.

use std::sync::Arc;

use jeton_engine::ids::{Error, IdIndex};
use jeton_testkit::Rng;
use jeton_wal::disk::FaultDisk;

use super::common::*;

const GENERATIONS: u64 = 3;
const NUMBERS: u64 = 200;

/// A state that a reopened index may have: note and contents.
type State = (Vec<u8>, Contents);

/// Works until the end or the crash. Returns the last certain state, and the one in flight.
fn work(disk: &FaultDisk) -> (State, State, Result<(), Error>) {
    let mut sure: State = (Vec::new(), Contents::new());
    let mut next = sure.clone();
    let mut run = || -> Result<(), Error> {
        let (index, _) = IdIndex::open(Arc::new(disk.clone()), FOLDER)?;
        for commit in 0..20u64 {
            let mut all = entries(1, commit * 8..commit * 8 + 10);
            all.extend(entries(2, [commit]));
            if commit < 6 {
                all.splice(0..0, entries(0, [commit, commit + 50]));
            }
            let note = commit.to_le_bytes();
            next.0 = note.to_vec();
            remember(&mut next.1, &all);
            put(&index, &all, &note)?;
            sure = next.clone();
            index.merge(300)?;
            if commit == 12 {
                next.1.retain(|(generation, _), _| *generation >= 1);
                index.drop_expired(1)?;
                sure = next.clone();
            }
        }
        merge_all(&index)
    };
    let result = run();
    (sure, next, result)
}

fn check_after_crash(disk: &FaultDisk, sure: &State, next: &State, context: &str) {
    let (index, note) = open(disk);
    let fits =
        |state: &State| note == state.0 && difference(&index, &state.1, GENERATIONS, NUMBERS).is_none();
    assert!(
        fits(sure) || fits(next),
        "{context}: neither the last commit ({:?}) nor the one in flight ({:?}), with note {note:?}",
        difference(&index, &sure.1, GENERATIONS, NUMBERS),
        difference(&index, &next.1, GENERATIONS, NUMBERS)
    );
    assert_no_leftovers(disk, &index);
    // It continues from there.
    let contents = if fits(next) { &next.1 } else { &sure.1 };
    let mut contents = contents.clone();
    let more = entries(2, 150..NUMBERS);
    put(&index, &more, b"after").unwrap();
    remember(&mut contents, &more);
    merge_all(&index).unwrap();
    assert_eq!(difference(&index, &contents, GENERATIONS, NUMBERS), None, "{context}");
}

#[test]
fn a_crash_at_any_operation_leaves_the_state_of_a_commit() {
    let whole = FaultDisk::new();
    let (sure, next, result) = work(&whole);
    result.unwrap();
    assert_eq!(sure, next);
    let operations = whole.operations();
    assert!(operations > 300, "{operations}");
    for at in 1..=operations {
        for seed in 0..6 {
            let disk = FaultDisk::new();
            disk.die_at(at);
            let (sure, next, result) = work(&disk);
            // The last operation may be the removal of a file, whose result is ignored.
            assert!(result.is_err() || at + 20 > operations, "the crash at {at} was not met");
            let mut rng = Rng::new(at * 1000 + seed);
            let mut disk = disk.crash(&mut || rng.next_u64());
            let context = format!("crash at {at}, seed {seed}");
            if seed % 3 == 2 {
                // The power fails again while the index is being opened.
                disk.die_at(1 + seed % 2);
                drop(IdIndex::open(Arc::new(disk.clone()), FOLDER));
                disk = disk.crash(&mut || rng.next_u64());
            }
            check_after_crash(&disk, &sure, &next, &context);
        }
    }
}
