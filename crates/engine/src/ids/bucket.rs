//! A bucket: the records of one part of the key space, and its directory entry.
//!
//! The checksums are seeded with the run's number and the bucket's index, so that intact bytes of another run
//! or bucket are rejected.

use jeton_core::codec::{Reader, Write as _};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Key;
use super::encoding::{length, u32};

pub(super) const ENTRY_BYTES: usize = 96;

/// Average number of ids in a bucket: few enough to scan, enough to keep the directory small.
const BUCKET_IDS: u64 = 48;

/// Maximum average bytes of a bucket, so that long values do not make lookups read much.
const BUCKET_BYTES: u64 = 4096;

/// Number of buckets of a run with this many ids and bytes of records.
pub(super) fn buckets_for(ids: u64, record_bytes: u64) -> u64 {
    ids.div_ceil(BUCKET_IDS).max(record_bytes.div_ceil(BUCKET_BYTES)).max(1)
}

/// The bucket of a key. Monotonic in the key, so that sorted records are sorted by bucket.
#[inline]
pub(super) fn bucket_of(key: u128, buckets: u64) -> u64 {
    let place = key >> 64;
    ((place * u128::from(buckets)) >> 64) as u64
}

/// Checksum of bytes that belong to one bucket of one run.
#[inline]
pub(super) fn sum(bytes: &[u8], run: u64, bucket: u64) -> u64 {
    xxh3_64_with_seed(bytes, run.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ bucket)
}

/// A directory entry: position and checksum of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Offset of its records in the file.
    pub(super) start: u64,
    pub(super) bytes: u32,
    pub(super) ids: u32,
    pub(super) sum: u64,
    /// Rejects most absent ids without reading the records.
    pub(super) filter: Filter,
}

impl Bucket {
    pub(super) fn encode(&self, run: u64, index: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.put_u64(self.start);
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.ids.to_le_bytes());
        out.put_u64(self.sum);
        self.filter.0.iter().for_each(|word| out.put_u64(*word));
        out.put_u64(sum(&out[begin..], run, index));
    }

    /// Decodes the entry, if the bytes belong to this bucket of this run.
    pub(super) fn decode(entry: &[u8], run: u64, index: u64) -> Option<Self> {
        let (body, check) = entry.split_at_checked(ENTRY_BYTES - 8)?;
        if check != sum(body, run, index).to_le_bytes() {
            return None;
        }
        let mut body = Reader::new(body);
        let (start, bytes, ids) = (body.u64().ok()?, u32(&mut body)?, u32(&mut body)?);
        let sum = body.u64().ok()?;
        let mut filter = Filter::default();
        for word in &mut filter.0 {
            *word = body.u64().ok()?;
        }
        Some(Self { start, bytes, ids, sum, filter })
    }
}

/// A small Bloom filter: at the average number of ids, 1 % false positives.
///
/// Uses the half of the key that does not choose the bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filter([u64; 8]);

impl Filter {
    const PROBES: u32 = 6;

    fn positions(key: u128) -> impl Iterator<Item = (usize, u64)> {
        let bits = key as u64;
        (0..Self::PROBES).map(move |probe| {
            let position = (bits >> (9 * probe)) & 511;
            ((position >> 6) as usize, 1 << (position & 63))
        })
    }

    #[inline]
    pub(super) fn insert(&mut self, key: u128) {
        for (word, bit) in Self::positions(key) {
            self.0[word] |= bit;
        }
    }

    #[inline]
    pub(super) fn may_contain(&self, key: u128) -> bool {
        Self::positions(key).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// The record at the front of `bytes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) key: &'a Key,
    pub(super) value: &'a [u8],
    pub(super) bytes: usize,
}

impl<'a> Record<'a> {
    #[inline]
    pub(super) fn first(bytes: &'a [u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk()?;
        let (length, prefix) = length(rest)?;
        let value = rest.get(prefix..prefix + length)?;
        Some(Self { key, value, bytes: size_of::<Key>() + prefix + length })
    }
}

/// The value of a key among sorted records; an error is the offset of an invalid record.
pub(super) fn find<'a>(records: &'a [u8], key: &Key) -> Result<Option<&'a [u8]>, usize> {
    let mut at = 0;
    while at < records.len() {
        let record = Record::first(&records[at..]).ok_or(at)?;
        if record.key >= key {
            return Ok((record.key == key).then_some(record.value));
        }
        at += record.bytes;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_monotonic_and_all_used() {
        for buckets in [1, 2, 3, 1000, 1 << 40] {
            assert_eq!(bucket_of(0, buckets), 0);
            assert_eq!(bucket_of(u128::MAX, buckets), buckets - 1);
            let steps: Vec<u64> = (0..=1000).map(|n| bucket_of(u128::MAX / 1000 * n, buckets)).collect();
            assert!(steps.is_sorted(), "{buckets}");
        }
        let used: std::collections::BTreeSet<u64> =
            (0..100).map(|n| bucket_of((u128::MAX / 100) * n + (1 << 100), 10)).collect();
        assert_eq!(used.len(), 10);
    }

    #[test]
    fn long_values_get_more_buckets() {
        assert_eq!(buckets_for(0, 0), 1);
        assert_eq!(buckets_for(48_000, 48_000 * 57), 1000);
        assert_eq!(buckets_for(48_000, 48_000 * 4096), 48_000);
    }

    #[test]
    fn a_directory_entry_is_bound_to_its_position() {
        let mut filter = Filter::default();
        filter.insert(77);
        let bucket = Bucket { start: 1 << 40, bytes: 3000, ids: 50, sum: 99, filter };
        let mut bytes = vec![];
        bucket.encode(7, 5, &mut bytes);
        assert_eq!(bytes.len(), ENTRY_BYTES);
        assert_eq!(Bucket::decode(&bytes, 7, 5), Some(bucket));
        assert_eq!(Bucket::decode(&bytes, 7, 6), None);
        assert_eq!(Bucket::decode(&bytes, 8, 5), None);
        assert_eq!(Bucket::decode(&bytes[1..], 7, 5), None);
    }

    #[test]
    fn filter_has_no_false_negatives_and_few_false_positives() {
        // An odd multiplier spreads small numbers over the key.
        let key = |n: u128| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).rotate_right(64);
        let mut filter = Filter::default();
        (0..BUCKET_IDS.into()).for_each(|n| filter.insert(key(n)));
        assert!((0..BUCKET_IDS.into()).all(|n| filter.may_contain(key(n))));
        let false_positives = (1000..11_000).filter(|n| filter.may_contain(key(*n))).count();
        assert!(false_positives < 300, "{false_positives} of 10,000 absent ids were hits");
    }
}
