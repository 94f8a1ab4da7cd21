//! Helpers: ids, values, and the expected contents of an index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jeton_engine::ids::{Entry, Error, IdIndex, Key, NewRun, sort};
use jeton_testkit::Rng;
use jeton_wal::disk::{Disk, FaultDisk};

pub const FOLDER: &str = "data/ids";

/// Expected contents by generation and key.
pub type Contents = BTreeMap<(u64, Key), Vec<u8>>;

/// SplitMix64 of a number: an [`Rng`] adds the constant before its first number.
fn mix(n: u64) -> u64 {
    Rng::new(n.wrapping_sub(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// A numbered id, spread over the key space like keyed hashes.
pub fn key(number: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number.wrapping_mul(2) + 1).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}

/// The value of a numbered id; its length varies.
pub fn value(number: u64) -> Vec<u8> {
    let length = 8 + number as usize % 30;
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The entries of numbered ids in a generation, sorted.
pub fn entries(generation: u64, numbers: impl IntoIterator<Item = u64>) -> Vec<Entry<Vec<u8>>> {
    let entry = |number| Entry { generation, key: key(number), value: value(number) };
    let mut entries: Vec<_> = numbers.into_iter().map(entry).collect();
    sort(&mut entries);
    entries
}

pub fn remember(contents: &mut Contents, entries: &[Entry<Vec<u8>>]) {
    contents.extend(entries.iter().map(|entry| ((entry.generation, entry.key), entry.value.clone())));
}

pub fn open<D: Disk + Clone>(disk: &D) -> (IdIndex<D>, Vec<u8>) {
    IdIndex::open(Arc::new(disk.clone()), FOLDER).expect("a sound index opens")
}

/// Adds entries and commits them.
pub fn put(index: &IdIndex<FaultDisk>, entries: &[Entry<Vec<u8>>], note: &[u8]) -> Result<(), Error> {
    let mut runs: Vec<NewRun<FaultDisk>> = index.add(entries)?;
    index.commit(&mut runs, note)?;
    assert!(runs.is_empty(), "committed runs are taken");
    Ok(())
}

pub fn merge_all(index: &IdIndex<FaultDisk>) -> Result<(), Error> {
    while index.merge(u64::MAX)? {}
    Ok(())
}

/// The difference between the index and its expected contents, over every id below `numbers` in every
/// generation below `generations`; `None` if there is none.
pub fn difference<D: Disk>(
    index: &IdIndex<D>,
    contents: &Contents,
    generations: u64,
    numbers: u64,
) -> Option<String> {
    for generation in 0..generations {
        for number in 0..numbers {
            let found = index.find(&key(number), [generation]);
            let expected = contents.get(&(generation, key(number)));
            match found {
                Ok(found) if found.as_ref() == expected => {}
                found => {
                    return Some(format!("id {number} in {generation}: {found:?}, should be {expected:?}"));
                }
            }
        }
    }
    index.verify().err().map(|error| error.to_string())
}

/// An error unless the folder holds exactly the live files.
pub fn assert_no_leftovers(disk: &FaultDisk, index: &IdIndex<FaultDisk>) {
    let files = index.files().expect("the files of a sound index can be listed");
    let mut live: BTreeSet<String> = files.runs.iter().cloned().collect();
    live.insert(files.manifest.0);
    let listed = disk.list(FOLDER).expect("the folder can be listed");
    let there: BTreeSet<String> = listed.into_iter().map(|file| format!("{FOLDER}/{file}")).collect();
    assert_eq!(there, live, "the files in the folder are the live ones");
    assert_eq!(index.stats().queued_removals, 0);
}
