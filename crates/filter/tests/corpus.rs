//! Replays the corpus of the fuzz target.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use std::time::Duration;

use forgetful_filter::{DatedFilter, ForgetfulFilter, Growth, Settings, Timestamp};
use fuzzed::{KEY, NOW, SEALED, STREAMED};

const WINDOW: Duration = Duration::from_secs(600);

/// Small filters, so that the seeds are short.
fn settings() -> Settings {
    Settings::for_window(WINDOW).expected_ids(4).false_positive_rate(0.05).memory_cap(1 << 20)
}

fn before_now(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(NOW.as_nanos() - seconds * 1_000_000_000)
}

fn arrived(filter: ForgetfulFilter, ids: u64) -> Vec<u8> {
    (0..ids).for_each(|id| filter.insert(&id.to_le_bytes(), before_now(500 - id * 500 / ids)));
    filter.snapshot()
}

fn dated(filter: DatedFilter, ids: u64) -> Vec<u8> {
    for id in 0..ids {
        let date = before_now(500 - id * 500 / ids);
        filter.insert(&id.to_le_bytes(), date, date).unwrap();
    }
    filter.snapshot()
}

fn snapshots() -> replay::Seeds {
    let with = |choice: u8, snapshot: Vec<u8>| [vec![choice], snapshot].concat();
    let few = || settings().generations(2);
    let later = 20 << 2;
    vec![
        ("empty", with(0, settings().build(KEY).unwrap().snapshot())),
        ("arrived", with(SEALED, arrived(settings().build(KEY).unwrap(), 8))),
        ("surge", with(SEALED | STREAMED, arrived(settings().build(KEY).unwrap(), 100))),
        ("fixed", with(SEALED, arrived(settings().growth(Growth::Fixed).build(KEY).unwrap(), 100))),
        ("arrived-long-ago", with(SEALED | later, arrived(settings().build(KEY).unwrap(), 20))),
        ("dated-empty", with(0, settings().build_dated(KEY).unwrap().snapshot())),
        ("dated", with(SEALED, dated(few().build_dated(KEY).unwrap(), 8))),
        ("dated-surge", with(SEALED | STREAMED, dated(few().build_dated(KEY).unwrap(), 20))),
        ("dated-skew", with(SEALED, dated(few().skew(WINDOW / 2).build_dated(KEY).unwrap(), 8))),
        ("dated-long-ago", with(SEALED | later, dated(few().build_dated(KEY).unwrap(), 8))),
    ]
}

#[test]
fn snapshots_of_filters() {
    let seeds = snapshots();
    for (name, seed) in &seeds {
        let arrival = ForgetfulFilter::restore(&seed[1..], KEY, NOW, 1 << 20).is_ok();
        let dated = DatedFilter::restore(&seed[1..], KEY, NOW, 1 << 20).is_ok();
        assert!(arrival != dated, "{name} is a snapshot of one kind");
        assert!(seed.len() <= 4096, "{name} is longer than the inputs of the fuzzer");
    }
    replay::seeds("snapshot", &seeds);
    replay::each("snapshot", fuzzed::snapshot);
}

/// A count above the maximum is written as the maximum; otherwise the next snapshot would be rejected.
#[test]
fn a_filter_with_a_count_at_its_maximum_can_be_restored() {
    /// Position of the first count, after the header, seven settings, the check of the key and the time.
    const COUNT: usize = 20 + 9 * 8;
    let later = NOW.after(WINDOW * 3);
    let at_maximum = |mut snapshot: Vec<u8>| {
        snapshot[COUNT..COUNT + 8].copy_from_slice(&(1_u64 << 48).to_le_bytes());
        fuzzed::seal(&mut snapshot);
        snapshot
    };
    let snapshot = at_maximum(arrived(settings().build(KEY).unwrap(), 8));
    let filter = ForgetfulFilter::restore(&snapshot, KEY, NOW, 1 << 20).unwrap();
    filter.insert(b"id", NOW);
    filter.insert(b"id", later);
    assert!(filter.status().refreshes_by_age > 1 << 48);
    assert!(ForgetfulFilter::restore(&filter.snapshot(), KEY, later, 1 << 20).is_ok());

    let snapshot = at_maximum(dated(settings().build_dated(KEY).unwrap(), 8));
    let filter = DatedFilter::restore(&snapshot, KEY, later, 1 << 20).unwrap();
    assert!(filter.status().refreshes_by_age > 1 << 48);
    assert!(DatedFilter::restore(&filter.snapshot(), KEY, later, 1 << 20).is_ok());
}
