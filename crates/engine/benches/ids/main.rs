//! The cost of an id in the index: CPU time to sort, add, merge and find it, and memory.
//!
//! `cargo bench -p jeton-engine --bench ids [-- <millions of ids> <lookups>]`. Times are CPU times of this
//! process, user and system, so that waiting for the disk or for a CPU does not count.

#[path = "../versus/report.rs"]
#[allow(dead_code, reason = "this benchmark uses a part of it")]
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton_engine::ids::{Entry, IdIndex, Key, sort};
use jeton_wal::disk::RealDisk;

use report::{load, resident_bytes};

/// Ids of one run.
const RUN_IDS: u64 = 131_072;
const VALUE_BYTES: usize = 40;
/// Bytes that a merge step copies.
const STEP_BYTES: u64 = 4 * 1024 * 1024;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let ids = numbers.next().unwrap_or(10) * 1_000_000;
    let finds = numbers.next().unwrap_or(200_000);
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-ids");
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    touch_memory(&root.join("touch"), ids * 180)?;
    measure(ids, finds, Arc::new(RealDisk::new(&root)?))?;
    std::fs::remove_dir_all(&root)?;
    Ok(())
}

fn measure(ids: u64, finds: u64, disk: Arc<RealDisk>) -> Result<(), Failure> {
    println!("{}", load());
    let (index, _) = IdIndex::open(disk, "ids")?;
    let (mut sorting, mut adding, mut merging) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut longest = Duration::ZERO;
    let start = Instant::now();
    let memory = resident_bytes();
    let mut batch = Vec::with_capacity(RUN_IDS as usize);
    for first in (0..ids).step_by(RUN_IDS as usize) {
        batch.clear();
        batch.extend((first..ids.min(first + RUN_IDS)).map(|number| Entry {
            generation: 1,
            key: key(number),
            value: [number as u8; VALUE_BYTES],
        }));
        sorting += cost(|| sort(&mut batch)).1;
        let (result, time) = cost(|| index.add(&batch).and_then(|mut runs| index.commit(&mut runs, b"note")));
        result?;
        adding += time;
        loop {
            let before = Instant::now();
            let (more, time) = cost(|| index.merge(STEP_BYTES));
            merging += time;
            longest = longest.max(before.elapsed());
            if !more? {
                break;
            }
        }
    }
    drop(batch);
    let per_id = |time: Duration| time.as_nanos() as f64 / ids as f64;
    println!(
        "{ids} ids of 16 + {VALUE_BYTES} bytes in batches of {RUN_IDS}, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    println!("sort          {:7.1} ns/id", per_id(sorting));
    println!("add, commit   {:7.1} ns/id", per_id(adding));
    println!("merge         {:7.1} ns/id   longest step {longest:.0?}", per_id(merging));
    println!("add and merge {:7.1} ns/id", per_id(adding + merging));
    let stats = index.stats();
    println!("{stats:?}, {:.1} bytes/id", stats.bytes as f64 / stats.ids as f64);
    let print_memory = || println!("memory grew by {} KiB", resident_bytes().saturating_sub(memory) >> 10);
    print_memory();

    let step = (ids / finds.max(1)).max(1);
    let find = |number| index.find(&key(number), [1]);
    // The first round warms up.
    for round in ["hit, cold", "hit", "hit"] {
        let (found, time) =
            cost(|| (0..finds).filter(|n| matches!(find(n * step % ids), Ok(Some(_)))).count());
        assert_eq!(found as u64, finds, "every id is found");
        println!("find, {round:<9} {:8.0} ns", time.as_nanos() as f64 / finds as f64);
    }
    for _ in 0..2 {
        let (found, time) = cost(|| (ids..ids + finds).filter(|n| !matches!(find(*n), Ok(None))).count());
        assert_eq!(found, 0, "an absent id is not found");
        println!("find, miss      {:8.0} ns", time.as_nanos() as f64 / finds as f64);
    }
    print_memory();
    println!("{}", load());
    Ok(())
}

/// A numbered id, distributed like a keyed hash.
fn key(number: u64) -> Key {
    let mix = |mut n: u64| {
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    };
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    key[8..].copy_from_slice(&mix(!number).to_le_bytes());
    key
}

/// Makes the system allocate memory for the page cache. A virtual machine gets its memory page by page on the
/// first access, which takes ten times as long as the copy; a server that has run for a while has it already.
fn touch_memory(file: &std::path::Path, bytes: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let parent = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let (piece, file_handle) = (vec![1; 1 << 20], parent.and_then(|()| std::fs::File::create(file))?);
    for at in (0..bytes).step_by(piece.len()) {
        file_handle.write_all_at(&piece, at)?;
    }
    std::fs::remove_file(file)
}

fn cost<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    let result = black_box(work());
    (result, now() - before)
}
