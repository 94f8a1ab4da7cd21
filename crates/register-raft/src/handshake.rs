//! The proofs of a handshake: both members prove that they know the secret without sending it.
//!
//! Each side sends a nonce, and proves itself with a keyed hash of both nonces, both member numbers and its
//! side. So a recorded proof cannot be replayed, and a proof of one side is not valid for the other. Hashes
//! are compared in constant time.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::settings::Secret;

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
    pub caller: u64,
    pub callee: u64,
    pub caller_nonce: Nonce,
    pub callee_nonce: Nonce,
}

impl HandshakeTranscript {
    fn hash(&self, secret: &Secret, side: Side) -> Hmac<Sha256> {
        let mut hash = secret.keyed();
        hash.update(match side {
            Side::Caller => b"jeton raft 1 caller",
            Side::Callee => b"jeton raft 1 called",
        });
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

impl Secret {
    fn keyed(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("a key of this hash has any length")
    }

    /// A short hash of the secret, to compare secrets without revealing them.
    pub fn fingerprint(&self) -> u32 {
        let mut hash = self.keyed();
        hash.update(b"jeton raft 1 fingerprint");
        let [first, second, third, fourth, ..] = <[u8; 32]>::from(hash.finalize().into_bytes());
        u32::from_be_bytes([first, second, third, fourth])
    }
}

pub fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
}
