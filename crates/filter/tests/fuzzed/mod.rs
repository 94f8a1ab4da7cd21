//! Properties of restoring arbitrary bytes as the snapshot of a filter. The fuzz target includes this file,
//! so that its findings fail here in the same way.
//!
//! The first byte of the input selects whether the envelope is corrected first (a fuzzer does not guess a
//! checksum), how the bytes are read, and how much later.

use std::hash::Hasher;
use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Key, SnapshotError, Timestamp};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Memory cap of the restored filter.
const CAP: usize = 1 << 20;

/// The envelope is corrected.
pub const SEALED: u8 = 1;
/// The snapshot is read from a stream.
pub const STREAMED: u8 = 2;

pub const KEY: Key = Key::new([7; 16]);
pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

const ID: &[u8] = b"an id inserted later";

/// Magic and version.
const BEGIN: &[u8] = b"fgtfilt\n\x01\x00";
const HEADER: usize = 20;
const CHECKSUM: usize = 16;

/// Rejects the bytes, or restores a filter within the memory cap that remembers ids.
pub fn snapshot(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & SEALED != 0 {
        seal(&mut bytes);
    }
    let now = NOW.after(Duration::from_secs(10 * u64::from(choice >> 2)));
    let (arrival, dated) = if choice & STREAMED != 0 {
        (
            ForgetfulFilter::read_snapshot(&mut &*bytes, KEY, now, CAP),
            DatedFilter::read_snapshot(&mut &*bytes, KEY, now, CAP),
        )
    } else {
        (ForgetfulFilter::restore(&bytes, KEY, now, CAP), DatedFilter::restore(&bytes, KEY, now, CAP))
    };
    if let Ok(filter) = arrival {
        check_arrival(&filter, now);
    }
    if let Ok(filter) = dated {
        check_dated(&filter, now);
    }
}

pub fn seal(bytes: &mut [u8]) {
    let Some(body) = bytes.len().checked_sub(HEADER + CHECKSUM) else { return };
    bytes[..BEGIN.len()].copy_from_slice(BEGIN);
    bytes[HEADER - 8..HEADER].copy_from_slice(&(body as u64).to_le_bytes());
    let (covered, sum) = bytes.split_at_mut(HEADER + body);
    let mut hasher = SipHasher13::new_with_key(&[0; 16]);
    hasher.write(covered);
    sum.copy_from_slice(&hasher.finish128().as_bytes());
}

fn check_arrival(filter: &ForgetfulFilter, now: Timestamp) {
    assert!(filter.status().bytes <= CAP);
    let again = filter.snapshot();
    let twice = ForgetfulFilter::restore(&again, KEY, now, CAP).expect("a snapshot of the filter");
    assert!(twice.snapshot() == again, "a restored filter has the same snapshot");

    filter.insert(ID, now);
    filter.maintain(now);
    assert!(filter.contains(ID, now));
    assert!(filter.status().bytes <= CAP);
    filter.maintain(now.after(Duration::from_secs(1 << 40)));
}

fn check_dated(filter: &DatedFilter, now: Timestamp) {
    assert!(filter.status().bytes <= CAP);
    let again = filter.snapshot();
    match DatedFilter::restore(&again, KEY, now, CAP) {
        Ok(twice) => assert!(twice.snapshot() == again, "a restored filter has the same snapshot"),
        Err(error) => assert!(matches!(error, SnapshotError::OutOfMemory), "{error}"),
    }

    let inserted = filter.insert(ID, now, now);
    filter.maintain(now);
    if inserted.is_ok() {
        assert_eq!(filter.contains(ID, now, now), Ok(true));
    }
    assert!(filter.status().bytes <= CAP);
    filter.maintain(now.after(Duration::from_secs(1 << 40)));
}
