//! Bytes that are mostly few: those are kept in place, without memory of their own.

use std::hash::{Hash, Hasher};

/// So many bytes are kept in place.
const IN_PLACE: usize = 38;

/// Bytes; a few of them are kept in place. They compare and hash as the slice does.
#[derive(Clone)]
pub(crate) enum InlineBytes {
    InPlace { len: u8, bytes: [u8; IN_PLACE] },
    Apart(Vec<u8>),
}

const _: () = assert!(size_of::<InlineBytes>() == IN_PLACE + 2, "no room is lost");

impl InlineBytes {
    /// None, with room for so many.
    pub fn with_capacity(len: usize) -> Self {
        if len <= IN_PLACE {
            Self::InPlace { len: 0, bytes: [0; IN_PLACE] }
        } else {
            Self::Apart(Vec::with_capacity(len))
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::InPlace { len, bytes } => &bytes[..usize::from(*len)],
            Self::Apart(bytes) => bytes,
        }
    }

    /// Bytes of memory that it holds elsewhere.
    pub fn apart(&self) -> usize {
        match self {
            Self::InPlace { .. } => 0,
            Self::Apart(bytes) => bytes.capacity(),
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        match self {
            Self::Apart(bytes) => bytes.extend_from_slice(more),
            Self::InPlace { len, bytes } => {
                let (begin, end) = (usize::from(*len), usize::from(*len) + more.len());
                if let Some(free) = bytes.get_mut(begin..end) {
                    free.copy_from_slice(more);
                    *len = end as u8;
                } else {
                    *self = Self::Apart([&bytes[..begin], more].concat());
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
                assert_eq!(matches!(whole, InlineBytes::InPlace { .. }), len <= IN_PLACE);
            }
        }
        // Content decides, not the form it is kept in.
        let apart = InlineBytes::Apart(vec![1, 2, 3]);
        assert!(apart == InlineBytes::from(&[1, 2, 3][..]));
        assert!(InlineBytes::from(&[1, 2][..]) < apart && apart < InlineBytes::from(&[2][..]));
    }
}
