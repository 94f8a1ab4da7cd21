//! Filters that share a memory budget.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use forgetful_filter::{Budget, DatedFilter, ForgetfulFilter, Key, Pressure, Settings, Timestamp};

const KEY: Key = Key::new([3; 16]);
const WINDOW: Duration = Duration::from_secs(100);

fn settings(ids: u64) -> Settings {
    Settings::for_window(WINDOW).expected_ids(ids).memory_cap(1 << 30)
}

#[test]
fn a_filter_that_does_not_fit_is_refused_and_changes_nothing() {
    let budget = Budget::new(1 << 20);
    let first = settings(100_000).build_within(KEY, &budget).unwrap();
    let used = budget.used();
    assert_eq!(used, first.bytes());
    // A dated filter allocates slice by slice, and is charged for all expected ids at once.
    for error in [
        settings(1_000_000).build_within(KEY, &budget).err().unwrap(),
        settings(1_000_000).build_dated_within(KEY, &budget).err().unwrap(),
    ] {
        let text = error.to_string();
        assert!(text.contains(&format!("{used} of the limit of {}", 1 << 20)), "{text}");
    }
    assert_eq!(budget.used(), used);
    drop(first);
    assert_eq!(budget.used(), 0);
    settings(100_000).build_dated_within(KEY, &budget).unwrap();
    assert_eq!(budget.used(), 0);
}

#[test]
fn growth_stops_at_the_budget_and_forgets_nothing() {
    let budget = Budget::new(1 << 20);
    let arrival = settings(1_000).build_within(KEY, &budget).unwrap();
    let dated = settings(1_000).build_dated_within(KEY, &budget).unwrap();
    let now = Timestamp::from_secs(1_000);
    for id in 0..400_000_u64 {
        arrival.insert(&id.to_le_bytes(), now);
        dated.insert(&id.to_le_bytes(), now, now).unwrap();
    }
    for id in 0..400_000_u64 {
        assert!(arrival.contains(&id.to_le_bytes(), now));
        assert_eq!(dated.contains(&id.to_le_bytes(), now, now), Ok(true));
    }
    assert_eq!(arrival.status().pressure, Some(Pressure::MemoryCap));
    assert_eq!(dated.status().pressure, Some(Pressure::MemoryCap));
    assert!(arrival.bytes() + dated.bytes() <= budget.used() && budget.used() <= 1 << 20, "{budget:?}");
    // What has expired is available again.
    let later = Timestamp::from_secs(2_000);
    arrival.maintain(later);
    dated.maintain(later);
    assert!(budget.used() < 1 << 17, "{budget:?}");
}

#[test]
fn a_restored_filter_is_charged_once() {
    let now = Timestamp::from_secs(1_000);
    let (arrival, dated) = (settings(1_000).build(KEY).unwrap(), settings(1_000).build_dated(KEY).unwrap());
    for id in 0..50_000_u64 {
        arrival.insert(&id.to_le_bytes(), now);
        dated.insert(&id.to_le_bytes(), now, now).unwrap();
    }
    let bytes = arrival.bytes() + dated.bytes();
    let restore = |budget: &Budget| {
        let input = arrival.snapshot();
        let one = ForgetfulFilter::read_snapshot_within(&mut &*input, KEY, now, 1 << 30, budget)?;
        let input = dated.snapshot();
        let two = DatedFilter::read_snapshot_within(&mut &*input, KEY, now, 1 << 30, budget)?;
        Ok::<_, forgetful_filter::SnapshotError>((one, two))
    };
    let budget = Budget::new(bytes + (1 << 14));
    let restored = restore(&budget).unwrap();
    assert!((bytes..=bytes + (1 << 14)).contains(&budget.used()), "{budget:?}");
    drop(restored);
    let small = Budget::new(bytes - 1);
    let error = restore(&small).err().unwrap().to_string();
    assert!(error.contains(&format!("of the limit of {}", bytes - 1)), "{error}");
    assert_eq!((budget.used(), small.used()), (0, 0));
}
