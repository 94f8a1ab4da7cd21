//! Rows on their way to the store: keys and contents end to end in one piece of memory.
//!
//! A checkpoint has a hundred thousand rows of some thirty bytes. Each in memory of its own would take three times the room, and
//! leave it in pieces.

use std::ops::Range;

/// Rows to be stored, or to be removed.
#[derive(Debug, Default)]
pub struct Rows {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    begins: usize,
    key_bytes: u32,
    /// [`REMOVED`] if the row is to be removed.
    row_bytes: u32,
}

/// Stands for the length of a row that is to be removed. No row is nearly as long.
const REMOVED: u32 = u32::MAX;

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).ok().filter(|bytes| *bytes < REMOVED).expect("a row of less than 4 GiB")
}

impl Rows {
    /// Adds a row; the functions append its key and its content.
    pub fn push(&mut self, key: impl FnOnce(&mut Vec<u8>), row: Option<impl FnOnce(&mut Vec<u8>)>) {
        let begins = self.bytes.len();
        key(&mut self.bytes);
        let key_ends = self.bytes.len();
        let row_bytes = row.map_or(REMOVED, |row| {
            row(&mut self.bytes);
            length(self.bytes.len() - key_ends)
        });
        self.heads.push(Head { begins, key_bytes: length(key_ends - begins), row_bytes });
    }

    /// Adds a row; with nothing in it, to be removed.
    pub fn push_bytes(&mut self, key: &[u8], row: Option<&[u8]>) {
        self.push(
            |out| out.extend_from_slice(key),
            row.map(|row| |out: &mut Vec<u8>| out.extend_from_slice(row)),
        );
    }

    /// Adds all rows of another.
    pub fn append(&mut self, other: &Self) {
        other.iter().for_each(|(key, row)| self.push_bytes(key, row));
    }

    /// Puts them in the order of their keys.
    pub fn sort(&mut self) {
        let Self { heads, bytes } = self;
        heads.sort_unstable_by_key(|head| &bytes[head.key()]);
    }

    /// The rows: key, and content if it is not to be removed.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.heads.iter().map(|head| (&self.bytes[head.key()], head.row().map(|row| &self.bytes[row])))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

impl Head {
    fn key(&self) -> Range<usize> {
        self.begins..self.begins + self.key_bytes as usize
    }

    fn row(&self) -> Option<Range<usize>> {
        let begins = self.key().end;
        (self.row_bytes != REMOVED).then(|| begins..begins + self.row_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_with_their_content() {
        let mut rows = Rows::default();
        rows.push_bytes(b"b", Some(b"2"));
        rows.push_bytes(b"c", None);
        rows.push_bytes(b"", Some(b"0"));
        rows.push_bytes(b"ab", Some(b""));
        rows.sort();
        let found: Vec<_> = rows.iter().collect();
        let expected: [(&[u8], Option<&[u8]>); 4] =
            [(b"", Some(b"0")), (b"ab", Some(b"")), (b"b", Some(b"2")), (b"c", None)];
        assert_eq!(found, expected);
        assert!(!rows.is_empty() && Rows::default().is_empty());
    }
}
