//! Log lines that clients can cause, at most one a second.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds between two log lines.
const INTERVAL: u64 = 1000;

#[derive(Debug, Default)]
pub struct LogLimit {
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl LogLimit {
    /// If a line may be written now, the number of lines suppressed since the last one.
    pub fn permit(&self, millis: u64) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let is_due = millis >= next
            && self
                .next
                .compare_exchange(next, millis + INTERVAL, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_due {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_is_permitted() {
        let limit = LogLimit::default();
        let permitted = [5000, 5001, 5999, 6000, 6001, 9000].map(|millis| limit.permit(millis));
        assert_eq!(permitted, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
