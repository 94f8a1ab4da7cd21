//! Admission control: a bound on the requests and bytes in flight. Beyond it requests fail at once as busy.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, ReservedSpace};

/// A bound on the requests and bytes in flight.
#[derive(Debug)]
pub struct Admission {
    /// Requests and bytes.
    in_flight: Mutex<(usize, usize)>,
    requests_max: usize,
    bytes_max: usize,
}

impl Admission {
    pub fn new(requests_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { in_flight: Mutex::default(), requests_max, bytes_max })
    }

    /// Admits `requests` requests with `bytes` bytes together. When nothing is in flight, any request is
    /// admitted.
    pub fn reserve(self: &Arc<Self>, requests: usize, bytes: usize) -> Result<Admitted, Error> {
        let requests = requests.max(1);
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, size) = *in_flight;
        let total = (count.saturating_add(requests), size.saturating_add(bytes));
        if count > 0 && (total.0 > self.requests_max || total.1 > self.bytes_max) {
            return Err(Error::Busy(format!("{count} requests with {size} bytes are in flight")));
        }
        *in_flight = total;
        Ok(Admitted { admission: Arc::clone(self), requests, bytes })
    }
}

/// Admitted requests, counted as in flight until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    requests: usize,
    bytes: usize,
}

impl Admitted {
    /// Whether these requests were admitted here, and are no more than that.
    pub fn covers(&self, admission: &Arc<Admission>, requests: usize, bytes: usize) -> bool {
        Arc::ptr_eq(&self.admission, admission) && self.requests >= requests && self.bytes >= bytes
    }
}

impl ReservedSpace for Admitted {}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut in_flight = self.admission.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.0 -= self.requests;
        in_flight.1 -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_above_the_bound_are_busy_until_others_end() {
        let admission = Admission::new(3, 100);
        let first = admission.reserve(2, 90).unwrap();
        for (requests, bytes) in [(2, 5), (1, 11)] {
            assert!(matches!(admission.reserve(requests, bytes), Err(Error::Busy(_))));
        }
        let second = admission.reserve(1, 10).unwrap();
        assert!(matches!(admission.reserve(1, 0), Err(Error::Busy(_))));
        drop(first);
        assert!(admission.reserve(2, 90).is_ok());
        drop(second);
        assert!(admission.reserve(1000, 1000).is_ok(), "nothing else is in flight");
    }

    #[test]
    fn admitted_requests_cover_no_more_than_themselves() {
        let (admission, other) = (Admission::new(10, 100), Admission::new(10, 100));
        let admitted = admission.reserve(2, 50).unwrap();
        assert!(admitted.covers(&admission, 2, 50) && admitted.covers(&admission, 1, 0));
        assert!(!admitted.covers(&admission, 3, 50) && !admitted.covers(&admission, 2, 51));
        assert!(!admitted.covers(&other, 1, 1));
    }
}
