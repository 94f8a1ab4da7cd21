//! What must hold for any bytes at all, read as the snapshot of a filter. The fuzz target includes this file, so that what it finds
//! fails here in the same way.
//!
//! The first byte of the input says what is done with the rest: whether its envelope is made right first (nobody guesses a checksum,
//! and behind it is what there is to read), how it is read, and how much later it is.

use std::hash::Hasher;
use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Key, SnapshotError, Timestamp};
use siphasher::sip128::{Hasher128, SipHasher13};

/// As much as a filter may take.
const CAP: usize = 1 << 20;

/// The envelope is made right.
pub const SEALED: u8 = 1;
/// It is read in passing, and not as a whole.
pub const PASSING: u8 = 2;

pub const KEY: Key = Key::new([7; 16]);
pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

const ID: &[u8] = b"an id that comes after";

/// The beginning of every snapshot: magic and version.
const BEGIN: &[u8] = b"fgtfilt\n\x01\x00";
const HEADER: usize = 20;
const CHECKSUM: usize = 16;

/// Refused, or a filter within the memory that is allowed, which goes on to keep its promises.
pub fn snapshot(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & SEALED != 0 {
        seal(&mut bytes);
    }
    let now = NOW.after(Duration::from_secs(10 * u64::from(choice >> 2)));
    let passing = choice & PASSING != 0;
    arrival(&bytes, passing, now);
    dated(&bytes, passing, now);
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

/// Reads it in the way that is asked for.
macro_rules! read {
    ($filter:ty, $bytes:expr, $passing:expr, $now:expr) => {
        if $passing {
            <$filter>::read_snapshot(&mut &*$bytes, KEY, $now, CAP)
        } else {
            <$filter>::restore($bytes, KEY, $now, CAP)
        }
    };
}

fn arrival(bytes: &[u8], passing: bool, now: Timestamp) {
    let Ok(filter) = read!(ForgetfulFilter, bytes, passing, now) else { return };
    assert!(filter.status().bytes <= CAP);
    let again = filter.snapshot();
    let twice = ForgetfulFilter::restore(&again, KEY, now, CAP).expect("its own snapshot");
    assert!(twice.snapshot() == again, "the bytes are the same again");

    filter.insert(ID, now);
    filter.maintain(now);
    assert!(filter.contains(ID, now));
    assert!(filter.status().bytes <= CAP);
    filter.maintain(now.after(Duration::from_secs(1 << 40)));
}

fn dated(bytes: &[u8], passing: bool, now: Timestamp) {
    let Ok(filter) = read!(DatedFilter, bytes, passing, now) else { return };
    assert!(filter.status().bytes <= CAP);
    let again = filter.snapshot();
    match DatedFilter::restore(&again, KEY, now, CAP) {
        Ok(twice) => assert!(twice.snapshot() == again, "the bytes are the same again"),
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
