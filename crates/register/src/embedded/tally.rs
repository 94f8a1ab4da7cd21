//! What in a segment is needed: counted, so that a segment can go when nothing is.

use crate::Space;

/// The records of a segment that are needed: registers that are not trimmed, and the trim points of dated logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    lasting: u64,
    dated: u64,
    /// All of dated logs that were ever in it, and what they took.
    dated_ever: u64,
    dated_bytes: u64,
}

impl Tally {
    /// A record of so many bytes is in the segment.
    pub fn add(&mut self, space: Space, bytes: usize) {
        if space.is_dated() {
            self.dated += 1;
            self.dated_ever += 1;
            self.dated_bytes += bytes as u64;
        } else {
            self.lasting += 1;
        }
    }

    /// One of its records is not needed any more.
    pub fn remove(&mut self, space: Space) {
        let count = if space.is_dated() { &mut self.dated } else { &mut self.lasting };
        *count = count.checked_sub(1).expect("only what was counted goes");
    }

    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.lasting == 0 && self.dated == 0
    }

    /// Whether nothing is needed but what dated logs have in it.
    pub fn is_dated(&self) -> bool {
        self.lasting == 0
    }

    /// About how many bytes of dated logs are needed, as if their records were all of the same length.
    pub fn dated_bytes(&self) -> u64 {
        self.dated_bytes.checked_div(self.dated_ever).map_or(0, |bytes| bytes * self.dated)
    }
}
