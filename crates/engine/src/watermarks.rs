//! Watermarks: the last log slot of each partition that a store contains.

use jeton_core::PartitionId;
use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_core::limits::PARTITIONS;

use crate::shard::Slots;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermarks(Vec<u64>);

impl Default for Watermarks {
    fn default() -> Self {
        Self(vec![0; usize::from(PARTITIONS)])
    }
}

impl Watermarks {
    pub fn get(&self, partition: PartitionId) -> u64 {
        self.0[usize::from(partition.0)]
    }

    /// Raises slots; lowers none.
    pub fn raise(&mut self, slots: &Slots) {
        for (partition, slot) in slots {
            let watermark = &mut self.0[usize::from(partition.0)];
            *watermark = (*slot).max(*watermark);
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.0.len() as u64);
        for watermark in &self.0 {
            out.put_varint(*watermark);
        }
    }

    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if input.count()? != usize::from(PARTITIONS) {
            return Err(DecodeError("watermarks of another number of partitions"));
        }
        let mut watermarks = Self::default();
        for watermark in &mut watermarks.0 {
            *watermark = input.varint()?;
        }
        Ok(watermarks)
    }
}
