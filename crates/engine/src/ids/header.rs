//! The header of a run: identifies the file and ties it to the manifest.

use jeton_core::codec::Reader;
use xxhash_rust::xxh3::xxh3_64;

use super::Key;
use super::bucket::ENTRY_BYTES;
use super::encoding::u32;

pub(super) const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"jtnR";
const VERSION: u32 = 1;

/// A key and the length of an empty value.
const RECORD_BYTES_MIN: u64 = size_of::<Key>() as u64 + 1;

/// The header of a run. The numbers that lookups need stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Number of the run, which is its file name.
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) buckets: u64,
    pub(super) ids: u64,
    /// Bytes of the whole file.
    pub(super) size: u64,
    /// Digest of all bucket checksums: runs with different content have different headers.
    pub(super) digest: u64,
}

impl Header {
    /// Encodes the header. The last eight bytes are its checksum, which the manifest repeats.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [self.number, self.generation, self.buckets, self.ids, self.size, self.digest];
        for (bytes, number) in out[8..HEADER_BYTES - 8].chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let check = xxh3_64(&out[..HEADER_BYTES - 8]);
        out[HEADER_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
        out
    }

    pub(super) fn seal(&self) -> u64 {
        xxh3_64(&self.encode()[..HEADER_BYTES - 8])
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, &'static str> {
        let (body, check) = bytes.split_at(HEADER_BYTES - 8);
        if check != xxh3_64(body).to_le_bytes() {
            return Err("the header's checksum does not fit");
        }
        let short = "the header is too short";
        let mut body = Reader::new(body);
        if body.take(4) != Ok(&MAGIC[..]) {
            return Err("this is not a run of ids");
        }
        if u32(&mut body) != Some(VERSION) {
            return Err("the run has a version that this program does not know");
        }
        let mut number = || body.u64().map_err(|_| short);
        let header = Self {
            number: number()?,
            generation: number()?,
            buckets: number()?,
            ids: number()?,
            size: number()?,
            digest: number()?,
        };
        let records =
            header.buckets.checked_mul(ENTRY_BYTES as u64).and_then(|n| n.checked_add(HEADER_BYTES as u64));
        let records = records.and_then(|records| header.size.checked_sub(records));
        // The sizes of a merge follow from the number of ids.
        if header.buckets == 0 || records.is_none_or(|bytes| header.ids > bytes / RECORD_BYTES_MIN) {
            return Err("the header's numbers do not fit together");
        }
        Ok(header)
    }
}

/// Offset of the directory entry of a bucket; for the number of buckets, where the records begin.
pub(super) fn entry_at(bucket: u64) -> u64 {
    HEADER_BYTES as u64 + bucket * ENTRY_BYTES as u64
}

/// Adds the checksum of the next bucket to the digest.
#[inline]
pub(super) fn digest(before: u64, sum: u64) -> u64 {
    (before.rotate_left(17) ^ sum).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_detects_bit_flips() {
        let header = Header { number: 3, generation: 9, buckets: 2, ids: 77, size: 4000, digest: 5 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        assert_eq!(header.seal().to_le_bytes(), bytes[HEADER_BYTES - 8..]);
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn more_buckets_or_ids_than_the_file_holds_are_refused() {
        let header = Header { number: 3, generation: 9, buckets: 2, ids: 220, size: 4000, digest: 5 };
        assert!(Header::decode(&header.encode()).is_ok());
        for wrong in [Header { buckets: u64::MAX / 2, ..header }, Header { ids: 221, ..header }] {
            assert!(Header::decode(&wrong.encode()).is_err());
        }
    }
}
