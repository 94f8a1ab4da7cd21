//! ReservedSpace in the queues: a place is reserved before something is taken in, and given back when it is answered.

use std::sync::{Arc, Mutex, PoisonError};

use jeton_register::{Error, ReservedSpace};

/// What is reserved of a queue, and how much may be.
#[derive(Debug)]
pub struct Queue {
    reserved: Mutex<(usize, usize)>,
    count_max: usize,
    bytes_max: usize,
}

impl Queue {
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { reserved: Mutex::default(), count_max, bytes_max })
    }

    /// Reserves room. Whatever there is fits into an empty queue.
    pub fn reserve(self: &Arc<Self>, count: usize, bytes: usize) -> Result<Reserved, Error> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, all) = (reserved.0 + count.max(1), reserved.1 + bytes);
        if reserved.0 > 0 && (counts > self.count_max || all > self.bytes_max) {
            let (waiting, bytes) = *reserved;
            return Err(Error::Busy(format!("{waiting} requests with {bytes} bytes are under way already")));
        }
        *reserved = (counts, all);
        Ok(Reserved { queue: Arc::clone(self), count: count.max(1), bytes })
    }
}

/// Reserved room, given back on drop.
#[derive(Debug)]
pub struct Reserved {
    queue: Arc<Queue>,
    count: usize,
    bytes: usize,
}

impl Reserved {
    /// Whether it is room of this queue, and enough.
    pub fn covers(&self, queue: &Arc<Queue>, count: usize, bytes: usize) -> bool {
        Arc::ptr_eq(&self.queue, queue) && self.count >= count && self.bytes >= bytes
    }
}

impl ReservedSpace for Reserved {}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut reserved = self.queue.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.0 -= self.count;
        reserved.1 -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_its_limits_a_queue_is_busy_until_room_is_given_back() {
        let queue = Queue::new(3, 100);
        let first = queue.reserve(2, 90).unwrap();
        assert!(matches!(queue.reserve(2, 5), Err(Error::Busy(_))));
        assert!(matches!(queue.reserve(1, 11), Err(Error::Busy(_))));
        let second = queue.reserve(1, 10).unwrap();
        assert!(matches!(queue.reserve(1, 0), Err(Error::Busy(_))));
        drop(first);
        assert!(queue.reserve(2, 90).is_ok());
        drop(second);
        assert!(queue.reserve(1000, 1000).is_ok(), "it is empty");
    }

    #[test]
    fn room_covers_what_it_was_reserved_for() {
        let (queue, other) = (Queue::new(10, 100), Queue::new(10, 100));
        let room = queue.reserve(2, 50).unwrap();
        assert!(room.covers(&queue, 2, 50) && room.covers(&queue, 1, 0));
        assert!(!room.covers(&queue, 3, 50) && !room.covers(&queue, 2, 51) && !room.covers(&other, 1, 1));
    }
}
