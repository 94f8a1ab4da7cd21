//! Addresses: table, row, column, and the partition that follows from table and row.

use std::fmt;

use crate::codec::{DecodeError, Reader, Write};
use crate::hash::{Secret, tag};
use crate::inline_bytes::InlineBytes;
use crate::limits::{FAMILY_BYTES_MAX, PARTITIONS, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX};

/// Number of a table. Assigned at its creation and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl fmt::Display for TableId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "table {}", self.0)
    }
}

/// Number of a partition, below [`PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// All partitions, in ascending order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(&'static str);

/// A column: a family and a qualifier, or neither.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Column(Box<[u8]>);

impl Column {
    /// The column of an address that names none.
    pub fn unnamed() -> Self {
        Self::default()
    }

    /// Parses `family:qualifier`. The qualifier may hold any bytes, colons included.
    pub fn parse(text: &[u8]) -> Result<Self, AddressError> {
        let colon = text
            .iter()
            .position(|byte| *byte == b':')
            .ok_or(AddressError("a column is written family:qualifier"))?;
        let (family, qualifier) = (&text[..colon], &text[colon + 1..]);
        if family.is_empty() || family.len() > FAMILY_BYTES_MAX {
            return Err(AddressError("a column family has 1 to 64 bytes"));
        }
        if qualifier.len() > QUALIFIER_BYTES_MAX {
            return Err(AddressError("a column qualifier has at most 255 bytes"));
        }
        Ok(Self(text.into()))
    }
}

/// A cell encoded as one byte string, so that the cells of a row are adjacent and the rows of a table are
/// sorted.
///
/// Layout: partition (2, highest byte first), table (4, highest byte first), row with every 0 byte followed
/// by 255, two 0 bytes, column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(InlineBytes);

const HEAD: usize = 6;

impl Cell {
    pub fn new(secret: &Secret, table: TableId, row: &[u8], column: &Column) -> Result<Self, AddressError> {
        if row.is_empty() {
            return Err(AddressError("the row is empty"));
        }
        if row.len() > ROW_BYTES_MAX {
            return Err(AddressError("the row is longer than 1024 bytes"));
        }
        let partition = secret.partition(table, row);
        let mut bytes = InlineBytes::with_capacity(HEAD + row.len() + 2 + column.0.len());
        let ([a, b], [c, d, e, f]) = (partition.0.to_be_bytes(), table.0.to_be_bytes());
        bytes.extend_from_slice(&[a, b, c, d, e, f]);
        escape(row, |piece| bytes.extend_from_slice(piece));
        bytes.extend_from_slice(&[0, 0]);
        if !column.0.is_empty() {
            bytes.extend_from_slice(&column.0);
        }
        Ok(Self(bytes))
    }

    /// Appends the prefix that all cells of this partition and table share whose rows begin with these bytes.
    pub fn encode_prefix(partition: PartitionId, table: TableId, row: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&partition.0.to_be_bytes());
        out.extend_from_slice(&table.0.to_be_bytes());
        escape(row, |piece| out.extend_from_slice(piece));
    }

    /// The partition that owns the cell.
    pub fn partition(&self) -> PartitionId {
        let head = self.head();
        PartitionId(u16::from_be_bytes([head[0], head[1]]))
    }

    pub fn table(&self) -> TableId {
        let head = self.head();
        TableId(u32::from_be_bytes([head[2], head[3], head[4], head[5]]))
    }

    /// The hash tag of the row, or the row if it has none, with every 0 byte followed by 255. Together with
    /// the table it determines the partition and is the scope of an id: rows with the same hash tag can be in
    /// one operation.
    pub fn routing_key(&self) -> &[u8] {
        let encoded = &self.as_bytes()[HEAD..];
        // The first two 0 bytes end the row: a 0 byte of the row is followed by 255.
        let row = encoded.windows(2).position(|pair| pair == [0, 0]).map_or(encoded, |end| &encoded[..end]);
        tag(row)
    }

    fn head(&self) -> [u8; HEAD] {
        let Some(head) = self.as_bytes().first_chunk() else { unreachable!("a cell has a head") };
        *head
    }

    pub fn row_and_column(&self) -> (Vec<u8>, &[u8]) {
        let mut row = Vec::new();
        let mut rest = &self.as_bytes()[HEAD..];
        loop {
            match rest {
                [0, 255, after @ ..] => {
                    row.push(0);
                    rest = after;
                }
                [0, 0, column @ ..] => return (row, column),
                [byte, after @ ..] => {
                    row.push(*byte);
                    rest = after;
                }
                [] => unreachable!("a cell ends its row: checked on construction"),
            }
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Heap bytes: 0 unless the cell is long.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes.get(HEAD..).ok_or(DecodeError("a cell that ends too early"))?;
        loop {
            rest = match rest {
                [0, 255, after @ ..] => after,
                [0, 0, ..] => break,
                [0, ..] | [] => return Err(DecodeError("a cell without an end of its row")),
                [_, after @ ..] => after,
            };
        }
        let cell = Self(InlineBytes::from(bytes));
        if cell.partition().0 < PARTITIONS { Ok(cell) } else { Err(DecodeError("an unknown partition")) }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.as_bytes());
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_bytes(input.bytes()?)
    }
}

/// A row as encoded in a cell: every 0 byte is followed by 255.
fn escape(row: &[u8], mut put: impl FnMut(&[u8])) {
    if !row.contains(&0) {
        return put(row);
    }
    for piece in row.split_inclusive(|byte| *byte == 0) {
        put(piece);
        if piece.ends_with(&[0]) {
            put(&[255]);
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, column) = self.row_and_column();
        let (row, column) = (row.escape_ascii(), column.escape_ascii());
        write!(out, "{}/{}/{row}/{column}", self.partition().0, self.table().0)
    }
}
