//! An addition: counter, id, and whether it was sent before.

use std::hash::{BuildHasher, RandomState};

use jeton_testkit::Rng;

/// The length of an id as text.
pub const ID_TEXT: usize = 36;

/// One addition of one.
#[derive(Clone, Copy)]
pub struct Operation {
    pub id: [u8; 16],
    pub counter: u32,
    /// Sent again with its id after it was answered: a retry after a lost answer.
    pub again: bool,
}

/// Generates UUIDs of version 7.
pub struct Ids(Rng);

impl Ids {
    /// A generator with a random seed.
    pub fn new() -> Self {
        // The keys of the standard hasher are random.
        Self(Rng::new(RandomState::new().hash_one(0)))
    }

    /// The next id, of a time in milliseconds since 1970.
    pub fn next(&mut self, millis: u64) -> [u8; 16] {
        self.0.uuid7(millis).to_be_bytes()
    }
}

/// Two hexadecimal digits for each byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = [digits[at >> 4], digits[at & 15]];
        at += 1;
    }
    table
};

/// Writes an id as text, hyphens included.
pub fn write_id(id: &[u8; 16], out: &mut [u8; ID_TEXT]) {
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    for (byte, place) in id.iter().zip(PLACES) {
        out[place..place + 2].copy_from_slice(&HEX[usize::from(*byte)]);
    }
    for place in [8, 13, 18, 23] {
        out[place] = b'-';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7_with_its_time() {
        let mut ids = Ids::new();
        let millis = 0x0123_4567_89ab;
        let mut text = [0; ID_TEXT];
        write_id(&ids.next(millis), &mut text);
        let text = std::str::from_utf8(&text).expect("hexadecimal");
        assert!(text.starts_with("01234567-89ab-7"), "{text}");
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
        assert_ne!(ids.next(millis), ids.next(millis));
    }
}
