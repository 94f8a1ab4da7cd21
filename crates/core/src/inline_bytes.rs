//! Byte strings that store short content inline, without an allocation.

use std::hash::{Hash, Hasher};

/// Longest content that is stored inline.
const INLINE_MAX: usize = 38;

/// A byte string; short content is inline. Compares and hashes like a slice.
#[derive(Clone)]
pub(crate) enum InlineBytes {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Heap(Vec<u8>),
}

const _: () = assert!(size_of::<InlineBytes>() == INLINE_MAX + 2, "no padding");

impl InlineBytes {
    /// An empty string with this capacity.
    pub fn with_capacity(len: usize) -> Self {
        if len <= INLINE_MAX {
            Self::Inline { len: 0, bytes: [0; INLINE_MAX] }
        } else {
            Self::Heap(Vec::with_capacity(len))
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Inline { .. } => 0,
            Self::Heap(bytes) => bytes.capacity(),
        }
    }

    #[inline]
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        match self {
            Self::Heap(bytes) => bytes.extend_from_slice(more),
            Self::Inline { len, bytes } => {
                let (begin, end) = (usize::from(*len), usize::from(*len) + more.len());
                if let Some(free) = bytes.get_mut(begin..end) {
                    free.copy_from_slice(more);
                    *len = end as u8;
                } else {
                    *self = Self::Heap([&bytes[..begin], more].concat());
                }
            }
        }
    }
}

impl From<&[u8]> for InlineBytes {
    fn from(slice: &[u8]) -> Self {
        let mut bytes = Self::with_capacity(slice.len());
        bytes.extend_from_slice(slice);
        bytes
    }
}

impl PartialEq for InlineBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for InlineBytes {}

impl PartialOrd for InlineBytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InlineBytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for InlineBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_in_place_and_apart() {
        let all: Vec<u8> = (0..100).collect();
        for len in 0..all.len() {
            for cut in [0, len / 3, len] {
                let mut grown = InlineBytes::with_capacity(0);
                grown.extend_from_slice(&all[..cut]);
                grown.extend_from_slice(&all[cut..len]);
                let whole = InlineBytes::from(&all[..len]);
                assert_eq!(grown.as_slice(), &all[..len]);
                assert!(grown == whole && grown.cmp(&whole).is_eq());
                assert_eq!(matches!(whole, InlineBytes::Inline { .. }), len <= INLINE_MAX);
            }
        }
        // Equality depends on the content, not on where it is stored.
        let heap = InlineBytes::Heap(vec![1, 2, 3]);
        assert!(heap == InlineBytes::from(&[1, 2, 3][..]));
        assert!(InlineBytes::from(&[1, 2][..]) < heap && heap < InlineBytes::from(&[2][..]));
    }
}
