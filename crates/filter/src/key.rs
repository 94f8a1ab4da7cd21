//! The secret key, and the fingerprint of an id under it.
//!
//! Clients choose ids. With a known hash function, a client could choose ids that make another client's new
//! id look like a duplicate; with a secret key it cannot find such ids. The hash is SipHash-1-3, a keyed
//! function.

use siphasher::sip::SipHasher13;

/// A secret of 16 random bytes. Store it with the data: a snapshot can only be restored under the key it was
/// taken with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// Creates a key from 16 secret random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The fingerprint of an id under this key: stable across machines and versions.
    #[inline]
    pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
        Fingerprint(SipHasher13::new_with_key(&self.0).hash(id))
    }

    /// Identifies the key without revealing it.
    pub(crate) fn check_value(&self) -> u64 {
        self.fingerprint(b"forgetful-filter key check").0
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// An id hashed under a [`Key`]. Compute it once if the same id is looked up and inserted in separate steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub(crate) u64);

impl Fingerprint {
    /// Wraps a 64-bit value that is *already* a keyed, uniformly distributed hash of the id.
    pub const fn from_keyed_hash(hash: u64) -> Self {
        Self(hash)
    }

    /// The hash.
    pub const fn get(self) -> u64 {
        self.0
    }
}
