//! Bytes read as the snapshot of a filter: refused, or a filter within the memory that was allowed.

#![no_main]

use forgetful_filter::{ConcurrentDatedFilter, ConcurrentFilter, DatedFilter, ForgetfulFilter, Key, Moment};

/// As much as a filter may take.
const CAP: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (key, now) = (Key::new([7; 16]), Moment::from_secs(1_700_000_000));
    if let Ok(filter) = ForgetfulFilter::restore(data, key, now, CAP) {
        assert!(filter.status().bytes <= CAP);
    }
    if let Ok(filter) = ConcurrentFilter::restore(data, key, now, CAP) {
        assert!(filter.status().bytes <= CAP);
    }
    if let Ok(filter) = DatedFilter::restore(data, key, now, CAP) {
        assert!(filter.status().bytes <= CAP);
    }
    if let Ok(filter) = ConcurrentDatedFilter::restore(data, key, now, CAP) {
        assert!(filter.status().bytes <= CAP);
    }
});
