//! Shared by the tests: a seeded RNG, and functions that drive a journal until it has no work left.

use jeton_wal::disk::{Disk, DiskFile, FaultDisk};
use jeton_wal::{Batch, Error, Fatal, FrameNumber, Journal, LogId, Options, Reservation, Slot};

/// The smallest segments, so that segment changes are frequent.
pub const SEGMENT_BYTES: u32 = 64 << 10;

pub fn options() -> Options {
    Options::small(SEGMENT_BYTES)
}

pub fn rng(seed: u64) -> impl FnMut() -> u64 {
    let mut rng = jeton_testkit::Rng::new(seed);
    move || rng.next_u64()
}

pub fn log(number: u16) -> LogId {
    LogId(number)
}

/// Does all work that is due.
pub fn drive<D: Disk>(journal: &mut Journal<D>) -> Result<(), Fatal> {
    loop {
        if let Some(mut task) = journal.take_task() {
            task.run();
            journal.complete_task(task)?;
        } else if journal.has_flush() {
            flush_one(journal)?;
        } else {
            return Ok(());
        }
    }
}

pub fn flush_one<D: Disk>(journal: &mut Journal<D>) -> Result<FrameNumber, Fatal> {
    let mut flush = journal.take_flush().expect("there is a frame to flush");
    flush.run();
    journal.complete(flush)
}

/// Reserves, appends and flushes a batch. If the next segment is missing, it is created first.
pub fn append<D: Disk>(journal: &mut Journal<D>, batch: &Batch) -> Result<(), Error> {
    let frame = stage(journal, batch)?;
    drive(journal).map_err(|fatal| Error::Unknown(fatal.0))?;
    if frame > journal.durable() {
        return Err(Error::Unknown("all work is done, and the batch is not durable".into()));
    }
    Ok(())
}

/// As [`append`], without the flush.
pub fn stage<D: Disk>(journal: &mut Journal<D>, batch: &Batch) -> Result<FrameNumber, Error> {
    let reservation = match reserve(journal, batch) {
        Err(Error::Busy(_)) => {
            drive(journal).map_err(|fatal| Error::Unknown(fatal.0))?;
            reserve(journal, batch)?
        }
        other => other?,
    };
    journal.append(batch, reservation)
}

pub fn reserve<D: Disk>(journal: &mut Journal<D>, batch: &Batch) -> Result<Reservation, Error> {
    journal.reserve(batch.len(), batch.entry_bytes())
}

pub fn one(number: u16, slot: u64, entry: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(log(number), Slot(slot), entry);
    batch
}

/// The durable entries of a log.
pub fn read_all<D: Disk>(journal: &Journal<D>, number: u16) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    let reader = journal.reader().unwrap();
    reader
        .for_each(|log, slot, entry| {
            if log == LogId(number) {
                all.push((slot.0, entry.to_vec()));
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    all
}

/// The names of the segments on a disk.
pub fn segments(disk: &FaultDisk) -> Vec<String> {
    let names = disk.list("log").unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).map(|name| format!("log/{name}")).collect()
}

/// A disk with the files of a fixture: lines `file NAME LENGTH`, and `at OFFSET HEX` for their content other
/// than zeros.
pub fn fixture(text: &str) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut file = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", name, bytes] => {
                file = Some(disk.create(name, bytes.parse().unwrap()).unwrap());
                let folder = name.split('/').next().unwrap();
                disk.sync_names(folder).unwrap();
            }
            ["at", offset, hex] => {
                let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
                let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
                file.as_ref().unwrap().write_at(&bytes, offset.parse().unwrap()).unwrap();
            }
            _ => panic!("{line}"),
        }
    }
    disk.copy()
}
