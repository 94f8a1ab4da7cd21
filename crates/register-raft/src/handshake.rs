//! How members prove to each other that they know the secret, without saying it.
//!
//! Each side gives a number that was never used; each side answers with a keyed hash of both numbers, of who speaks to whom, and of its
//! part. So nothing that was heard before can be said again, and an answer of one part is none of the other. Hashes are compared in constant time.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::settings::Secret;

/// A number that is used once.
pub type Nonce = [u8; 32];

/// Whose words are proved.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Caller,
    Called,
}

/// What both sides have said so far.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeTranscript {
    pub caller: u64,
    pub called: u64,
    pub caller_nonce: Nonce,
    pub called_nonce: Nonce,
}

impl HandshakeTranscript {
    fn hash(&self, secret: &Secret, part: Part) -> Hmac<Sha256> {
        let mut hash = secret.keyed();
        hash.update(match part {
            Part::Caller => b"jeton raft 1 caller",
            Part::Called => b"jeton raft 1 called",
        });
        hash.update(&self.caller.to_le_bytes());
        hash.update(&self.called.to_le_bytes());
        hash.update(&self.caller_nonce);
        hash.update(&self.called_nonce);
        hash
    }

    /// What that part says to prove itself.
    pub fn prove(&self, secret: &Secret, part: Part) -> [u8; 32] {
        self.hash(secret, part).finalize().into_bytes().into()
    }

    /// Whether that part has proved itself.
    pub fn holds(&self, secret: &Secret, part: Part, proof: &[u8; 32]) -> bool {
        self.hash(secret, part).verify_slice(proof).is_ok()
    }
}

impl Secret {
    fn keyed(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("a key of this hash has any length")
    }

    /// A number that follows from the secret and does not give it away.
    pub fn fingerprint(&self) -> u32 {
        let mut hash = self.keyed();
        hash.update(b"jeton raft 1 fingerprint");
        let [first, second, third, fourth, ..] = <[u8; 32]>::from(hash.finalize().into_bytes());
        u32::from_be_bytes([first, second, third, fourth])
    }
}

/// A number that was never used.
pub fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
}
