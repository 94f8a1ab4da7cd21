//! What a cell holds.

use crate::codec::{Malformed, Reader, Write};

/// What a cell holds: a counter, or plain bytes. A cell that holds nothing counts as a counter at zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A counter.
    Counter(i64),
    /// Plain bytes, at most [`CELL_BYTES_MAX`](crate::limits::CELL_BYTES_MAX) of them.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The counter, if it is one.
    pub fn counter(&self) -> Option<i64> {
        match self {
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
        }
    }

    /// Appends the value as bytes, for a store.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Counter(value) => {
                out.put_u8(1);
                out.put_signed(*value);
            }
            Self::Bytes(bytes) => {
                out.put_u8(2);
                out.put_bytes(bytes);
            }
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.u8()? {
            1 => Ok(Self::Counter(input.signed()?)),
            2 => Ok(Self::Bytes(input.bytes()?.into())),
            _ => Err(Malformed("an unknown kind of value")),
        }
    }
}
