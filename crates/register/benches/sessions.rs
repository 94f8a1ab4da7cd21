//! A million sessions: memory, disk usage, start time, and the time to retire them. Prints; checks nothing.
//!
//! `cargo bench -p jeton-register --bench sessions`, in the folder that `JETON_BENCH_DIR` names, or a
//! temporary one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_executor::block_on;
use jeton_register::embedded::{EmbeddedRegisters, Options};
use jeton_register::{
    Batch, Error as RegisterError, LogId, LogKind, Registers, Slot, WritePermit, WriteResult,
};
use jeton_wal::disk::RealDisk;

const SESSIONS: u128 = 1_000_000;
const VALUE: [u8; 200] = [7; 200];
const TOGETHER: u128 = 256;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let parent = std::env::var_os("JETON_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("jeton-sessions-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(folder: &Path) -> Result<(), Error> {
    let engine = open(folder)?;
    let before = memory();
    let begin = Instant::now();
    begin_sessions(&engine, 0)?;
    println!("{SESSIONS} sessions with a register of {} bytes each, {TOGETHER} in a batch", VALUE.len());
    println!("  written in {:.1?}; {} MiB on disk", begin.elapsed(), disk(folder)?);
    println!("  {} bytes of memory for each", (memory() - before) as u128 / SESSIONS);

    // A partition beside them, trimmed at once: the sessions must not hold its segments.
    let begin = Instant::now();
    let (mut most, mut slots) = (0, 0);
    for _ in 0..10_000 {
        write(&engine, (1..=TOGETHER as u64).map(|slot| (LogId::partition(1), Slot(slots + slot))))?;
        slots += TOGETHER as u64;
        insist(|| block_on(engine.trim(LogId::partition(1), Slot(slots))))?;
        if slots % (TOGETHER as u64 * 100) == 0 {
            most = most.max(disk(folder)?);
        }
    }
    let through = (slots * VALUE.len() as u64) >> 20;
    println!(
        "  {through} MiB of a partition went through in {:.1?}; at most {most} MiB on disk",
        begin.elapsed()
    );

    drop(engine);
    let begin = Instant::now();
    let engine = open(folder)?;
    println!("  opened again in {:.1?}", begin.elapsed());

    let begin = Instant::now();
    let mut longest = std::time::Duration::ZERO;
    for below in (0..SESSIONS).step_by(10_000) {
        let asked = Instant::now();
        insist(|| block_on(engine.retire(LogKind::Transaction, below)))?;
        longest = longest.max(asked.elapsed());
    }
    insist(|| block_on(engine.retire(LogKind::Transaction, SESSIONS + 1)))?;
    println!("  retired in steps of 10000 in {:.1?}, the longest {longest:.1?}", begin.elapsed());
    write(&engine, [(LogId::partition(1), Slot(slots + 1))].into_iter())?;
    println!("  {} MiB on disk", disk(folder)?);
    // What is free is not given back to the system: whether it is free is seen when it is needed again.
    let before = memory();
    begin_sessions(&engine, SESSIONS)?;
    println!(
        "  as many again, with {} bytes more of memory for each",
        memory().saturating_sub(before) as u128 / SESSIONS
    );
    Ok(())
}

fn begin_sessions(engine: &EmbeddedRegisters<RealDisk>, after: u128) -> Result<(), RegisterError> {
    for first in (1..=SESSIONS).step_by(TOGETHER as usize) {
        let ids = first..(first + TOGETHER).min(SESSIONS + 1);
        write(engine, ids.map(|id| (LogId::transaction(after + id), Slot(1))))?;
    }
    Ok(())
}

fn open(folder: &Path) -> Result<EmbeddedRegisters<RealDisk>, Error> {
    Ok(EmbeddedRegisters::open(RealDisk::new(folder)?, Options::default())?)
}

fn write(
    engine: &EmbeddedRegisters<RealDisk>,
    names: impl Iterator<Item = (LogId, Slot)>,
) -> Result<(), RegisterError> {
    let mut batch = Batch::new();
    for (log, slot) in names {
        batch.push(log, slot, &VALUE);
    }
    let written = insist(|| block_on(engine.write(batch.clone(), WritePermit::unlimited())))?;
    assert!(written.iter().all(|written| *written == WriteResult::Fresh), "a new register is fresh");
    Ok(())
}

/// Asks until the engine is not busy.
fn insist<T>(mut ask: impl FnMut() -> Result<T, RegisterError>) -> Result<T, RegisterError> {
    loop {
        match ask() {
            Err(RegisterError::Busy(_)) => std::thread::yield_now(),
            answer => return answer,
        }
    }
}

/// The memory of this process, in bytes.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}

/// What the log takes, in MiB.
fn disk(folder: &Path) -> std::io::Result<u64> {
    let files = std::fs::read_dir(folder.join("log"))?;
    // A file may be renamed or removed meanwhile.
    Ok(files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum::<u64>() >> 20)
}
