//! Random histories against a plain map.

use jeton_engine::ids::Entry;
use jeton_wal::disk::FaultDisk;
use proptest::prelude::*;

use super::common::*;

const GENERATIONS: u64 = 4;
const NUMBERS: u64 = 300;

#[derive(Debug, Clone)]
enum Step {
    /// Adds these ids, with a value that depends on the time.
    Add {
        generation: u64,
        numbers: Vec<u64>,
        long: bool,
    },
    Commit,
    /// Adds and commits one id several times, so that tiers fill.
    Trickle {
        generation: u64,
        number: u64,
        times: usize,
    },
    Merge {
        bytes: u64,
    },
    DropBefore {
        generation: u64,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let generation = 0..GENERATIONS;
    prop_oneof![
        4 => (generation.clone(), prop::collection::vec(0..NUMBERS, 1..120), prop::bool::weighted(0.1))
            .prop_map(|(generation, numbers, long)| Step::Add { generation, numbers, long }),
        4 => Just(Step::Commit),
        4 => (generation.clone(), 0..NUMBERS, 1..12usize)
            .prop_map(|(generation, number, times)| Step::Trickle { generation, number, times }),
        6 => prop_oneof![Just(1), 1..3000u64, Just(u64::MAX)].prop_map(|bytes| Step::Merge { bytes }),
        1 => generation.prop_map(|generation| Step::DropBefore { generation }),
        1 => Just(Step::Reopen),
    ]
}

fn stamped(generation: u64, numbers: &[u64], stamp: u64, long: bool) -> Vec<Entry<Vec<u8>>> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let mut entries = entries(generation, numbers);
    for entry in &mut entries {
        entry.value.extend_from_slice(&stamp.to_le_bytes());
        if long && entry.key[0] < 16 {
            entry.value.resize(60_000, 7);
        }
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_matches_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let disk = FaultDisk::new();
        let (mut index, _) = open(&disk);
        let (mut committed, mut added) = (Contents::new(), Contents::new());
        let mut pending = Vec::new();
        for (step, stamp) in steps.into_iter().zip(0u64..) {
            match step {
                Step::Add { generation, numbers, long } => {
                    let entries = stamped(generation, &numbers, stamp, long);
                    pending.extend(index.add(&entries).unwrap());
                    remember(&mut added, &entries);
                }
                Step::Commit => {
                    index.commit(&mut pending, &stamp.to_le_bytes()).unwrap();
                    committed.append(&mut added);
                }
                Step::Trickle { generation, number, times } => {
                    for time in 0..times as u64 {
                        let entries = stamped(generation, &[number], stamp * 1000 + time, false);
                        put(&index, &entries, &stamp.to_le_bytes()).unwrap();
                        remember(&mut committed, &entries);
                    }
                }
                Step::Merge { bytes } => drop(index.merge(bytes).unwrap()),
                Step::DropBefore { generation } => {
                    index.drop_expired(generation).unwrap();
                    committed.retain(|(of, _), _| *of >= generation);
                }
                Step::Reopen => {
                    pending.clear();
                    added.clear();
                    drop(index);
                    index = open(&disk).0;
                    assert_no_leftovers(&disk, &index);
                }
            }
            prop_assert_eq!(difference(&index, &committed, GENERATIONS, NUMBERS), None);
        }
        drop(pending);
        merge_all(&index).unwrap();
        prop_assert_eq!(difference(&index, &committed, GENERATIONS, NUMBERS), None);
        assert_no_leftovers(&disk, &index);
    }
}

#[test]
fn merging_leaves_few_runs_and_each_id_once() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let mut contents = Contents::new();
    for commit in 0..100 {
        // Every commit repeats ten ids of the one before, as a replay after a crash does.
        let entries = entries(3, commit * 20..commit * 20 + 30);
        put(&index, &entries, b"").unwrap();
        remember(&mut contents, &entries);
    }
    assert_eq!((index.stats().runs, index.stats().ids), (100, 3000));
    merge_all(&index).unwrap();
    // 100 = 1 * 64 + 4 * 8 + 4.
    assert_eq!(index.stats().runs, 1 + 4 + 4);
    assert!(index.stats().ids < 2100, "{:?}", index.stats());
    assert_eq!(difference(&index, &contents, 4, 2100), None);
    assert_no_leftovers(&disk, &index);
}

#[test]
fn generations_are_searched_in_the_given_order() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let entry = |generation, value: &str| Entry { generation, key: key(1), value: value.to_string() };
    let mut runs = index.add(&[entry(1, "one"), entry(2, "two"), entry(2, "again")]).unwrap();
    assert_eq!(runs.iter().map(|run| (run.generation(), run.ids())).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    index.commit(&mut runs, b"note").unwrap();
    let find = |generations: &[u64]| index.find(&key(1), generations.iter().copied()).unwrap();
    assert_eq!(find(&[1, 2]), Some(b"one".to_vec()));
    assert_eq!(find(&[2, 1]), Some(b"two".to_vec()), "of equal entries the first is kept");
    assert_eq!(find(&[0, 3]), None);
    assert_eq!(find(&[]), None);
    drop(index);
    assert_eq!(open(&disk).1, b"note");
}

#[test]
fn extreme_and_clustered_keys_are_found() {
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    // Keys that no hash would give: all in the first and the last bucket of many.
    let numbers = (0..500u128).chain((0..500).map(|n| u128::MAX - n));
    let mut all: Vec<Entry<Vec<u8>>> =
        numbers.map(|n| Entry { generation: 0, key: n.to_be_bytes(), value: vec![n as u8; 100] }).collect();
    jeton_engine::ids::sort(&mut all);
    put(&index, &all, b"").unwrap();
    for entry in &all {
        assert_eq!(index.find(&entry.key, [0]).unwrap().as_ref(), Some(&entry.value));
    }
    assert_eq!(index.find(&500u128.to_be_bytes(), [0]).unwrap(), None);
    index.verify().unwrap();
}

#[test]
fn invalid_entries_are_refused() {
    use jeton_engine::ids::{Error, NOTE_BYTES_MAX, VALUE_BYTES_MAX};
    let disk = FaultDisk::new();
    let (index, _) = open(&disk);
    let entry = |number, length| Entry { generation: 0, key: key(number), value: vec![1; length] };
    let mut unsorted = [entry(1, 1), entry(2, 1)];
    jeton_engine::ids::sort(&mut unsorted);
    unsorted.reverse();
    assert!(matches!(index.add(&unsorted), Err(Error::Unsorted { position: 1 })));
    assert!(matches!(index.add(&[entry(1, VALUE_BYTES_MAX + 1)]), Err(Error::TooLarge { .. })));
    let mut runs = index.add(&[entry(1, VALUE_BYTES_MAX)]).unwrap();
    assert!(matches!(index.commit(&mut runs, &vec![0; NOTE_BYTES_MAX + 1]), Err(Error::TooLarge { .. })));
    assert_eq!(runs.len(), 1, "a commit that failed leaves the runs with the caller");
    index.commit(&mut runs, &[]).unwrap();
    assert_eq!(index.find(&key(1), [0]).unwrap(), Some(vec![1; VALUE_BYTES_MAX]));
    assert!(index.add::<Vec<u8>>(&[]).unwrap().is_empty());
    assert_no_leftovers(&disk, &index);
}
