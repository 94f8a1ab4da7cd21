//! Rows of a checkpoint: keys and contents concatenated in one buffer.
//!
//! A checkpoint has about 100,000 rows of 30 bytes. One allocation for each would take three times the memory
//! and fragment it.

use std::ops::Range;

/// Rows to be stored or removed.
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

/// In place of a length: the row is to be removed. No row is nearly as long.
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

    /// Adds a row; `None` removes it.
    pub fn push_bytes(&mut self, key: &[u8], row: Option<&[u8]>) {
        self.push(
            |out| out.extend_from_slice(key),
            row.map(|row| |out: &mut Vec<u8>| out.extend_from_slice(row)),
        );
    }

    pub fn append(&mut self, other: &Self) {
        other.iter().for_each(|(key, row)| self.push_bytes(key, row));
    }

    pub fn sort(&mut self) {
        let Self { heads, bytes } = self;
        heads.sort_unstable_by_key(|head| &bytes[head.key()]);
    }

    /// The rows: key, and content or `None` for a removal.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.heads.iter().map(|head| (&self.bytes[head.key()], head.row().map(|row| &self.bytes[row])))
    }

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
    fn rows_are_sorted_with_their_content() {
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
