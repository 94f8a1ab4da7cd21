//! The proofs of a handshake: both sides prove that they know the secret without sending it.
//!
//! Each side sends a nonce, and proves itself with a keyed hash of the protocol, both nonces, both numbers
//! and its side. So a recorded proof cannot be replayed, and a proof of one side is not valid for the other.
//! Hashes are compared in constant time.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The secret that authenticates the nodes of a cluster. It does not encrypt connections.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty secret is refused by its length")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A secret for one purpose, which does not reveal this one.
    pub fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut hash = self.keyed();
        hash.update(purpose);
        hash.finalize().into_bytes().into()
    }

    /// A short hash of the secret, to compare secrets without revealing them.
    pub fn fingerprint(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.derive(b"jeton raft 1 fingerprint");
        u32::from_be_bytes([first, second, third, fourth])
    }

    fn keyed(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("a key of this hash has any length")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// A random number that is used once.
pub type Nonce = [u8; 32];

/// The side that proves itself.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    Caller,
    Callee,
}

/// What both sides have sent before the proofs.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeTranscript {
    pub magic: [u8; 4],
    pub version: u16,
    pub caller: u128,
    pub callee: u128,
    pub caller_nonce: Nonce,
    pub callee_nonce: Nonce,
}

impl HandshakeTranscript {
    fn hash(&self, secret: &Secret, side: Side) -> Hmac<Sha256> {
        let mut hash = secret.keyed();
        hash.update(match side {
            Side::Caller => b"jeton peer caller",
            Side::Callee => b"jeton peer called",
        });
        hash.update(&self.magic);
        hash.update(&self.version.to_le_bytes());
        hash.update(&self.caller.to_le_bytes());
        hash.update(&self.callee.to_le_bytes());
        hash.update(&self.caller_nonce);
        hash.update(&self.callee_nonce);
        hash
    }

    pub fn prove(&self, secret: &Secret, side: Side) -> [u8; 32] {
        self.hash(secret, side).finalize().into_bytes().into()
    }

    pub fn verify(&self, secret: &Secret, side: Side, proof: &[u8; 32]) -> bool {
        self.hash(secret, side).verify_slice(proof).is_ok()
    }
}

pub fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
}
