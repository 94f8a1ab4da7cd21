//! Snapshots: restored content, expired content, and rejected bytes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{WINDOW, id, key, seconds};
use forgetful_filter::{
    DatedFilter, DatedIdError, ForgetfulFilter, Growth, Key, Membership, Settings, SnapshotError, Timestamp,
};

/// A filter that has grown: two segments, several lanes.
fn grown() -> (ForgetfulFilter, u64) {
    let filter = Settings::for_window(WINDOW).expected_ids(500).build(key()).unwrap();
    let ids = 6_000;
    (0..ids).for_each(|number| filter.insert(&id(number), seconds(at(number))));
    // Inserts record the time only when a refresh is due; a snapshot contains the recorded time.
    filter.maintain(seconds(at(ids - 1)));
    assert!(filter.status().segments > 1 && filter.status().generations > 4);
    (filter, ids)
}

/// Slow at first, then a surge.
fn at(number: u64) -> f64 {
    if number < 500 { number as f64 * 0.1 } else { 50.0 + (number - 500) as f64 * 0.002 }
}

fn restore(bytes: &[u8], now: Timestamp) -> Result<ForgetfulFilter, SnapshotError> {
    ForgetfulFilter::restore(bytes, key(), now, 1 << 30)
}

#[test]
fn a_restored_filter_has_the_same_content() {
    let (filter, ids) = grown();
    let now = seconds(at(ids - 1));
    let restored = restore(&filter.snapshot(), now).unwrap();
    assert_eq!(restored.status(), filter.status());
    assert!(restored.snapshot() == filter.snapshot(), "the same bytes");
    for number in 0..20_000 {
        assert_eq!(restored.contains(&id(number), now), filter.contains(&id(number), now));
    }
    assert!((0..ids).all(|number| restored.contains(&id(number), now)));
}

#[test]
fn expired_ids_are_not_restored() {
    let (filter, ids) = grown();
    let bytes = filter.snapshot();
    // The last id is of 61 s. At 110 s the slow start has expired, the surge has not.
    let later = seconds(110.0);
    let restored = restore(&bytes, later).unwrap();
    assert!((500..ids).all(|number| restored.contains(&id(number), later)));
    assert!(restored.status().ids < filter.status().ids);
    assert!(!restored.contains(&id(0), later));
    let much_later = restore(&bytes, seconds(1_000.0)).unwrap();
    assert_eq!(much_later.status().ids, 0);
    assert_eq!(much_later.status().segments, 1);
}

#[test]
fn a_restored_filter_takes_new_ids() {
    let (filter, ids) = grown();
    let restored = restore(&filter.snapshot(), seconds(70.0)).unwrap();
    let mut false_positives = 0;
    for number in ids..ids + 50_000 {
        let now = seconds(70.0 + (number - ids) as f64 * 0.004);
        false_positives += u32::from(restored.check_and_insert(&id(number), now) == Membership::Maybe);
        assert!(restored.contains(&id(number), now));
    }
    assert!(false_positives < 60, "{false_positives} of 50,000 at a target of 1e-3");
    assert!(!restored.status().over_target(), "{:?}", restored.status());
}

#[test]
fn a_restored_dated_filter_rejects_expired_ids() {
    let filter = Settings::for_window(WINDOW).build_dated(key()).unwrap();
    for number in 0..3_000 {
        let now = seconds(number as f64 * 0.01);
        filter.insert(&id(number), now, now).unwrap();
    }
    let restored = DatedFilter::restore(&filter.snapshot(), key(), Timestamp::ZERO, 1 << 30).unwrap();
    assert!(restored.snapshot() == filter.snapshot(), "the same bytes");
    assert!((0..3_000).all(|n| restored.contains(&id(n), seconds(n as f64 * 0.01), seconds(30.0)).unwrap()));
    let later = DatedFilter::restore(&filter.snapshot(), key(), seconds(80.0), 1 << 30).unwrap();
    assert_eq!(later.contains(&id(0), Timestamp::ZERO, seconds(1.0)), Err(DatedIdError::Expired));
    assert_eq!(later.contains(&id(2_999), seconds(29.99), seconds(80.0)), Ok(true));
}

#[test]
fn every_changed_bit_and_every_truncation_is_detected() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    (0..100).for_each(|number| filter.insert(&id(number), seconds(1.0)));
    let bytes = filter.snapshot();
    let restore = |bytes: &[u8]| restore(bytes, seconds(1.0)).err();
    assert_eq!(restore(&bytes), None);
    for position in 0..bytes.len() {
        for bit in [0, 7] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << bit;
            assert!(restore(&damaged).is_some(), "bit {bit} of byte {position}");
        }
    }
    for length in 0..bytes.len() {
        assert!(restore(&bytes[..length]).is_some(), "cut to {length} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(restore(&longer), Some(SnapshotError::WrongLength { .. })));
}

/// Streams have the same bytes. Reading stops at the end of the snapshot and detects damage.
#[test]
fn streamed_snapshots_have_the_same_bytes() {
    let (filter, ids) = grown();
    let now = seconds(at(ids - 1));
    let dated = Settings::for_window(WINDOW).build_dated(key()).unwrap();
    (0..20_000).for_each(|number| dated.insert(&id(number), seconds(1.0), seconds(1.0)).unwrap());
    let mut bytes = Vec::new();
    filter.write_snapshot(&mut bytes).unwrap();
    let first = bytes.len();
    dated.write_snapshot(&mut bytes).unwrap();
    assert!(bytes == [filter.snapshot(), dated.snapshot()].concat());
    bytes.push(7);

    let input = &mut bytes.as_slice();
    let restored = ForgetfulFilter::read_snapshot(input, key(), now, 1 << 30).unwrap();
    assert!(restored.snapshot() == filter.snapshot());
    let restored = DatedFilter::read_snapshot(input, key(), Timestamp::ZERO, 1 << 30).unwrap();
    assert!(restored.snapshot() == dated.snapshot());
    assert_eq!(*input, [7]);

    let read = |mut bytes: &[u8]| ForgetfulFilter::read_snapshot(&mut bytes, key(), now, 1 << 30).err();
    for position in (0..first).step_by(101).chain(first - 20..first) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 4;
        assert!(read(&damaged).is_some(), "byte {position}");
        assert!(read(&bytes[..position]).is_some(), "cut to {position} bytes");
    }
    assert!(matches!(read(&bytes[..first - 1]), Some(SnapshotError::WrongLength { .. })));
}

/// Fails after this many bytes.
struct Failing(usize);

impl std::io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::Error::other("connection lost"));
        }
        let written = bytes.len().min(self.0);
        self.0 -= written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("connection lost"))
    }
}

#[test]
fn errors_of_writer_and_reader_are_returned() {
    let (filter, _) = grown();
    let whole = filter.snapshot().len();
    for bytes in [0, 1, 20, 20_000, whole - 1] {
        let error = filter.write_snapshot(&mut Failing(bytes)).unwrap_err();
        assert_eq!(error.to_string(), "connection lost", "after {bytes} of {whole} bytes");
    }
    filter.write_snapshot(&mut Failing(whole)).unwrap();
    let error = ForgetfulFilter::read_snapshot(&mut Failing(0), key(), seconds(1.0), 1 << 30).err().unwrap();
    assert_eq!(error.to_string(), "the snapshot cannot be read: connection lost");
}

#[test]
fn errors_describe_the_cause() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    let dated = Settings::for_window(WINDOW).build_dated(key()).unwrap();
    let bytes = filter.snapshot();
    let error = |bytes: &[u8], key| {
        ForgetfulFilter::restore(bytes, key, Timestamp::ZERO, 1 << 30).err().unwrap().to_string()
    };
    for bytes in [&b""[..], b"GIF89a.........................."] {
        assert_eq!(error(bytes, key()), "these bytes are not a snapshot of a filter");
    }
    assert_eq!(error(&bytes, Key::new([0; 16])), "the snapshot was taken under another key");
    assert_eq!(error(&dated.snapshot(), key()), "the snapshot is of another kind of filter (2)");
    let length = format!("the snapshot announces {} bytes, there are {}", bytes.len(), bytes.len() - 1);
    assert_eq!(error(&bytes[..bytes.len() - 1], key()), length);
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(error(&newer, key()), "the snapshot has format version 9, this code supports up to 1");
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    assert_eq!(error(&damaged, key()), "the snapshot is damaged: its checksum does not match");
}

#[test]
fn settings_are_restored() {
    let settings =
        Settings::for_window(WINDOW).expected_ids(700).growth(Growth::Fixed).false_positive_rate(1e-4);
    let filter = settings.build(key()).unwrap();
    let restored = restore(&filter.snapshot(), Timestamp::ZERO).unwrap();
    (0..100_000).for_each(|number| restored.insert(&id(number), seconds(1.0)));
    assert_eq!(restored.status().bytes, filter.status().bytes, "the size is fixed");
    assert_eq!(restored.status().target, 1e-4);
}

/// The checksum is no signature: a forged snapshot can contain any size.
#[test]
fn a_restored_filter_is_within_the_memory_cap() {
    let (filter, _) = grown();
    let dated = Settings::for_window(WINDOW).expected_ids(100_000).build_dated(key()).unwrap();
    dated.insert(&id(1), seconds(1.0), seconds(1.0)).unwrap();
    let needed = filter.status().bytes;
    let restore = |filter: &ForgetfulFilter, cap| {
        ForgetfulFilter::restore(&filter.snapshot(), key(), seconds(61.0), cap).err()
    };
    assert_eq!(restore(&filter, needed), None);
    let error = restore(&filter, needed - 1);
    assert!(matches!(error, Some(SnapshotError::TooLarge { memory_cap, .. }) if memory_cap == needed - 1));
    // The snapshot of an empty filter with many rows is small.
    let huge = Settings::for_window(WINDOW).expected_ids(1_000_000).memory_cap(1 << 40).build(key()).unwrap();
    assert!(huge.snapshot().len() < 1_000);
    assert!(matches!(restore(&huge, 1 << 20), Some(SnapshotError::TooLarge { .. })));
    let error = DatedFilter::restore(&dated.snapshot(), key(), seconds(61.0), 1 << 10).err();
    assert!(matches!(error, Some(SnapshotError::TooLarge { .. })));
}
