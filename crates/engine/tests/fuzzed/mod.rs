//! An id index with changed bytes. The fuzz target includes this file, so that its findings fail here in the
//! same way.
//!
//! The first byte of the input selects whether checksums are corrected. Changes follow: the number of a file,
//! an offset of two bytes, the number of bytes, and the bytes. They replace those of the file, or are XORed
//! with them if the checksums stay: the fuzzer guesses a checksum that it can insert.

#![allow(dead_code, reason = "the test uses more than the target")]

use std::sync::{Arc, LazyLock};

use jeton_engine::ids::{Entry, Error, IdIndex, Key, TIER_RUNS, sort};
use jeton_wal::disk::{Disk, DiskFile, FaultDisk};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const FOLDER: &str = "ids";
const MANIFEST: &str = "ids/manifest";
const HEADER: usize = 64;
const ENTRY: usize = 96;

/// Checksums are corrected.
pub const SEALED: u8 = 1;
/// The bit of the file number that cuts the file behind the change.
pub const CUT: u8 = 0x80;

/// Ids in the index, of two generations: one with a full tier, one with a run of two buckets.
const IDS: [u64; 2] = [2 * TIER_RUNS as u64, 80];

fn ids() -> impl Iterator<Item = (u64, Key)> {
    (0..IDS[1]).map(|number| (if number < IDS[0] { 1 } else { 2 }, key(number)))
}

fn key(number: u64) -> Key {
    let spread = u128::from(xxh3_64(&number.to_le_bytes())) << 64 | u128::from(number);
    spread.to_be_bytes()
}

fn value(key: &Key) -> Vec<u8> {
    key[8..].repeat(1 + usize::from(key[15]) % 3)
}

static GOOD: LazyLock<FaultDisk> = LazyLock::new(|| {
    let disk = FaultDisk::new();
    let (index, _) = IdIndex::open(Arc::new(disk.clone()), FOLDER).expect("an empty disk");
    let ids: Vec<_> = ids().collect();
    let (first, second) = ids.split_at(IDS[0] as usize);
    for ids in first.chunks(2).chain([second]) {
        add(&index, ids).expect("a disk without faults");
    }
    disk
});

fn add(index: &IdIndex<FaultDisk>, ids: &[(u64, Key)]) -> Result<(), Error> {
    let entry =
        |(generation, key): &(u64, Key)| Entry { generation: *generation, key: *key, value: value(key) };
    let mut entries: Vec<_> = ids.iter().map(entry).collect();
    sort(&mut entries);
    index.commit(&mut index.add(&entries)?, b"a note")
}

/// It opens or is refused, equally the second time. If it opens, an id is found, or damage is reported; ids
/// can be added, and merges end.
pub fn run(data: &[u8]) {
    let disk = changed(data);
    let open = || IdIndex::open(Arc::new(disk.clone()), FOLDER);
    let is_sealed = data.first().is_some_and(|choice| choice & SEALED != 0);
    let index = match open() {
        Ok((index, _)) => index,
        Err(error) => return assert!(matches!(error, Error::Damaged { .. }), "{error}"),
    };
    let before = found(&index, is_sealed);
    drop(index.verify());
    drop(index);
    let (index, _) = open().expect("it opened before");
    assert!(found(&index, is_sealed) == before, "records have changed");

    let more = [(3, key(1000)), (3, key(1001))];
    let added = more.iter().all(|id| add(&index, &[*id]).is_ok());
    assert!(found(&index, is_sealed) == before, "records have changed");
    let mut steps = 0;
    while index.merge(u64::MAX).unwrap_or(true) {
        steps += 1;
        assert!(steps < 100, "merges do not end");
    }
    found(&index, is_sealed);
    drop(index);
    let (index, _) = open().expect("an index that it wrote itself");
    for (generation, key) in more.iter().filter(|_| added) {
        assert_eq!(index.find(key, [*generation]).ok(), Some(Some(value(key))));
    }
}

/// The records of all ids; `None` for damage. With corrected checksums any record is possible.
fn found(index: &IdIndex<FaultDisk>, is_sealed: bool) -> Vec<Option<Option<Vec<u8>>>> {
    let absent = (0..3).map(|number| (number, key(2000 + number)));
    let find = |(generation, key): (u64, Key)| match index.find(&key, [generation]) {
        Ok(found) => {
            let expected = (key[8..] < IDS[1].to_be_bytes()[..]).then(|| value(&key));
            assert!(is_sealed || found == expected, "a wrong record");
            Some(found)
        }
        Err(error) => {
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            None
        }
    };
    ids().chain(absent).map(find).collect()
}

/// The valid index, changed by the input.
fn changed(data: &[u8]) -> FaultDisk {
    let disk = GOOD.copy();
    let Some((choice, mut rest)) = data.split_first() else { return disk };
    let is_sealed = choice & SEALED != 0;
    let files = disk.list(FOLDER).expect("a folder");
    while let [file, low, high, bytes, after @ ..] = rest {
        let name = format!("{FOLDER}/{}", files[usize::from(file & !CUT) % files.len()]);
        let mut content = disk.bytes(&name).expect("a file");
        let at = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
        let (bytes, after) = after.split_at(after.len().min(usize::from(*bytes)));
        rest = after;
        let end = at + bytes.len();
        content.resize(if file & CUT != 0 { end } else { content.len().max(end) }, 0);
        for (content, byte) in content[at..end].iter_mut().zip(bytes) {
            *content = if is_sealed { *byte } else { *content ^ byte };
        }
        write(&disk, &name, &content);
    }
    if is_sealed {
        let mut manifest = disk.bytes(MANIFEST).expect("a file");
        for file in files.iter().filter(|file| file.ends_with(".run")) {
            seal(&disk, &format!("{FOLDER}/{file}"), &mut manifest);
        }
        if let Some(body) = manifest.len().checked_sub(8) {
            let check = xxh3_64(&manifest[..body]);
            put(&mut manifest, body, check);
        }
        write(&disk, MANIFEST, &manifest);
    }
    disk
}

/// Corrects the checksums of a run, and of its header in the manifest.
fn seal(disk: &FaultDisk, name: &str, manifest: &mut [u8]) {
    let mut run = disk.bytes(name).expect("a file");
    if run.len() < HEADER {
        return;
    }
    let (number, buckets) = (word(&run, 8), word(&run, 24));
    let mut digest = 0_u64;
    for index in 0..buckets.min(((run.len() - HEADER) / ENTRY) as u64) {
        let at = HEADER + index as usize * ENTRY;
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
        let (start, bytes) = (word(&run, at) as usize, word(&run, at + 8) as u32 as usize);
        if let Some(records) = start.checked_add(bytes).and_then(|end| run.get(start..end)) {
            let sum = xxh3_64_with_seed(records, seed);
            put(&mut run, at + 16, sum);
        }
        digest = (digest.rotate_left(17) ^ word(&run, at + 16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let check = xxh3_64_with_seed(&run[at..at + ENTRY - 8], seed);
        put(&mut run, at + ENTRY - 8, check);
    }
    put(&mut run, 48, digest);
    let size = run.len() as u64;
    put(&mut run, 40, size);
    let check = xxh3_64(&run[..HEADER - 8]);
    put(&mut run, HEADER - 8, check);
    write(disk, name, &run);
    let note = manifest.get(16..20).map_or(0, |bytes| word(&[bytes, &[0; 4]].concat(), 0));
    let entries = (24 + note as usize..manifest.len().saturating_sub(32)).step_by(25);
    for at in entries.filter(|at| word(manifest, *at) == number).collect::<Vec<_>>() {
        put(manifest, at + 16, check);
    }
}

fn write(disk: &FaultDisk, name: &str, bytes: &[u8]) {
    let file = disk.create(name, 0).expect("a disk without faults");
    file.write_at(bytes, 0).expect("written");
    file.sync().expect("synced");
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes")
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
