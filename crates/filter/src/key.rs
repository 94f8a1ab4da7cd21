//! The secret key, and the fingerprint of an id under it.
//!
//! Clients choose ids. Under a known hash a client could choose ids that make somebody else's new id look like a
//! duplicate; under a secret key it cannot find them. The hash is SipHash-1-3, a keyed function made for this.

use siphasher::sip::SipHasher13;

/// A secret of 16 bytes. Draw it from the system's randomness, keep it with the data: a filter restored under
/// another key would not know its ids, and is therefore refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// A key from 16 secret random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The fingerprint of an id under this key: stable across machines and versions.
    #[inline]
    pub fn fingerprint(&self, id: &[u8]) -> Fingerprint {
        Fingerprint(SipHasher13::new_with_key(&self.0).hash(id))
    }

    /// A value that tells two keys apart without revealing them.
    pub(crate) fn check_value(&self) -> u64 {
        self.fingerprint(b"forgetful-filter key check").0
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// An id, hashed under a [`Key`]. Compute it once where an id is looked up and inserted in separate steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub(crate) u64);

impl Fingerprint {
    /// Takes a 64-bit value that is *already* a keyed, uniformly distributed hash of the id.
    pub const fn from_keyed_hash(hash: u64) -> Self {
        Self(hash)
    }

    /// The 64 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}
