//! Snapshots: what comes back, what is left out, and what is refused.
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

#[test]
fn everything_comes_back() {
    let (filter, ids) = grown();
    let now = seconds(at(ids - 1));
    let restored = ForgetfulFilter::restore(&filter.snapshot(), key(), now, 1 << 30).unwrap();
    assert_eq!(restored.status(), filter.status());
    assert!(restored.snapshot() == filter.snapshot(), "the bytes are the same again");
    for number in 0..20_000 {
        assert_eq!(restored.contains(&id(number), now), filter.contains(&id(number), now));
    }
    assert!((0..ids).all(|number| restored.contains(&id(number), now)));
}

#[test]
fn what_has_expired_meanwhile_is_left_out() {
    let (filter, ids) = grown();
    let bytes = filter.snapshot();
    // The last id came at 61 s. At 110 s the slow beginning has expired, the surge has not.
    let later = seconds(110.0);
    let restored = ForgetfulFilter::restore(&bytes, key(), later, 1 << 30).unwrap();
    assert!((500..ids).all(|number| restored.contains(&id(number), later)));
    assert!(restored.status().ids < filter.status().ids);
    assert!(!restored.contains(&id(0), later));
    let much_later = ForgetfulFilter::restore(&bytes, key(), seconds(1_000.0), 1 << 30).unwrap();
    assert_eq!(much_later.status().ids, 0);
    assert_eq!(much_later.status().segments, 1);
}

#[test]
fn a_restored_filter_goes_on() {
    let (filter, ids) = grown();
    let restored = ForgetfulFilter::restore(&filter.snapshot(), key(), seconds(70.0), 1 << 30).unwrap();
    let mut mistaken = 0;
    for number in ids..ids + 50_000 {
        let now = seconds(70.0 + (number - ids) as f64 * 0.004);
        mistaken += u32::from(restored.check_and_insert(&id(number), now) == Membership::Maybe);
        assert!(restored.contains(&id(number), now));
    }
    assert!(mistaken < 60, "{mistaken} of 50,000 new ids were mistaken at a target of 1e-3");
    assert!(!restored.status().over_target(), "{:?}", restored.status());
}

#[test]
fn dated_filters_come_back_and_refuse_what_has_expired() {
    let filter = Settings::for_window(WINDOW).build_dated(key()).unwrap();
    for number in 0..3_000 {
        let now = seconds(number as f64 * 0.01);
        filter.insert(&id(number), now, now).unwrap();
    }
    let restored = DatedFilter::restore(&filter.snapshot(), key(), Timestamp::ZERO, 1 << 30).unwrap();
    assert!(restored.snapshot() == filter.snapshot(), "the bytes are the same again");
    assert!((0..3_000).all(|n| restored.contains(&id(n), seconds(n as f64 * 0.01), seconds(30.0)).unwrap()));
    let later = DatedFilter::restore(&filter.snapshot(), key(), seconds(80.0), 1 << 30).unwrap();
    assert_eq!(later.contains(&id(0), Timestamp::ZERO, seconds(1.0)), Err(DatedIdError::Expired));
    assert_eq!(later.contains(&id(2_999), seconds(29.99), seconds(80.0)), Ok(true));
}

#[test]
fn every_single_damage_is_noticed() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    (0..100).for_each(|number| filter.insert(&id(number), seconds(1.0)));
    let bytes = filter.snapshot();
    let restore = |bytes: &[u8]| ForgetfulFilter::restore(bytes, key(), seconds(1.0), 1 << 30).err();
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

/// Written and read in passing it is the same, byte for byte; what comes after it is left alone, and damage is noticed there too.
#[test]
fn a_snapshot_in_passing_is_the_same() {
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

    for position in (0..first).step_by(101).chain(first - 20..first) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 4;
        let damaged = ForgetfulFilter::read_snapshot(&mut damaged.as_slice(), key(), now, 1 << 30);
        assert!(damaged.is_err(), "byte {position}");
        let cut = ForgetfulFilter::read_snapshot(&mut &bytes[..position], key(), now, 1 << 30);
        assert!(cut.is_err(), "cut to {position} bytes");
    }
    let cut = ForgetfulFilter::read_snapshot(&mut &bytes[..first - 1], key(), now, 1 << 30);
    assert!(matches!(cut.err(), Some(SnapshotError::WrongLength { .. })));
}

/// Fails after so many bytes.
struct Failing(usize);

impl std::io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::Error::other("the far end is gone"));
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
        Err(std::io::Error::other("the far end is gone"))
    }
}

#[test]
fn whoever_takes_or_gives_the_bytes_may_fail() {
    let (filter, _) = grown();
    let whole = filter.snapshot().len();
    for bytes in [0, 1, 20, 20_000, whole - 1] {
        let error = filter.write_snapshot(&mut Failing(bytes)).unwrap_err();
        assert_eq!(error.to_string(), "the far end is gone", "after {bytes} of {whole} bytes");
    }
    filter.write_snapshot(&mut Failing(whole)).unwrap();
    let error = ForgetfulFilter::read_snapshot(&mut Failing(0), key(), seconds(1.0), 1 << 30).err().unwrap();
    assert_eq!(error.to_string(), "the snapshot cannot be read: the far end is gone");
}

#[test]
fn the_error_says_what_is_wrong() {
    let filter = Settings::for_window(WINDOW).build(key()).unwrap();
    let dated = Settings::for_window(WINDOW).build_dated(key()).unwrap();
    let bytes = filter.snapshot();
    let error = |bytes: &[u8], key| {
        ForgetfulFilter::restore(bytes, key, Timestamp::ZERO, 1 << 30).err().unwrap().to_string()
    };
    assert_eq!(error(b"", key()), "these bytes are not a snapshot of a filter");
    assert_eq!(
        error(b"GIF89a..........................", key()),
        "these bytes are not a snapshot of a filter"
    );
    assert_eq!(error(&bytes, Key::new([0; 16])), "the snapshot was taken under another key");
    assert_eq!(error(&dated.snapshot(), key()), "the snapshot is of another kind of filter (2)");
    assert_eq!(error(&bytes[..bytes.len() - 1], key()), {
        format!("the snapshot announces {} bytes, there are {}", bytes.len(), bytes.len() - 1)
    });
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(error(&newer, key()), "the snapshot has format version 9, this code knows up to 1");
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    assert_eq!(error(&damaged, key()), "the snapshot is damaged: its checksum does not match");
}

#[test]
fn settings_come_back_with_the_snapshot() {
    let settings =
        Settings::for_window(WINDOW).expected_ids(700).growth(Growth::Fixed).false_positive_rate(1e-4);
    let filter = settings.build(key()).unwrap();
    let restored = ForgetfulFilter::restore(&filter.snapshot(), key(), Timestamp::ZERO, 1 << 30).unwrap();
    (0..100_000).for_each(|number| restored.insert(&id(number), seconds(1.0)));
    assert_eq!(restored.status().bytes, filter.status().bytes, "fixed stays fixed");
    assert_eq!(restored.status().target, 1e-4);
}

/// The checksum is no signature: whoever makes a snapshot can write any size into it. The caller's cap decides.
#[test]
fn a_snapshot_takes_no_more_memory_than_the_caller_allows() {
    let (filter, _) = grown();
    let dated = Settings::for_window(WINDOW).expected_ids(100_000).build_dated(key()).unwrap();
    dated.insert(&id(1), seconds(1.0), seconds(1.0)).unwrap();
    let needed = filter.status().bytes;
    assert!(ForgetfulFilter::restore(&filter.snapshot(), key(), seconds(61.0), needed).is_ok());
    let refused = ForgetfulFilter::restore(&filter.snapshot(), key(), seconds(61.0), needed - 1);
    assert!(
        matches!(refused.err(), Some(SnapshotError::TooLarge { memory_cap, .. }) if memory_cap == needed - 1)
    );
    // An empty filter of many rows is small as bytes, and would be large in memory.
    let huge = Settings::for_window(WINDOW).expected_ids(1_000_000).memory_cap(1 << 40).build(key()).unwrap();
    assert!(huge.snapshot().len() < 1_000);
    let refused = ForgetfulFilter::restore(&huge.snapshot(), key(), seconds(61.0), 1 << 20);
    assert!(matches!(refused.err(), Some(SnapshotError::TooLarge { .. })));
    let refused = DatedFilter::restore(&dated.snapshot(), key(), seconds(61.0), 1 << 10);
    assert!(matches!(refused.err(), Some(SnapshotError::TooLarge { .. })));
}
