//! What is stored of a secret: SHA-256 of a salt, the id and the secret.
//!
//! Why a fast hash: slow ones (scrypt, Argon2) make guessing costly where people choose passwords, of which a few billion
//! cover most. A secret here is 160 random bits: at a million million guesses a second, half of them take some 10^28
//! years, whatever the hash costs. And a slow hash has a price: HTTP shows its token with every request, so whoever sends
//! requests with wrong tokens would keep the processors busy with hashing. A fast hash is what denies them that.
//!
//! The salt is there so that equal hashes never show equal secrets, and a table made for one book is worthless for
//! another. All that is hashed has a fixed length and fits one block.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::token::Token;

pub(crate) const SALT_BYTES: usize = 16;
pub(crate) const HASH_BYTES: usize = 32;

/// A secret as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretHash {
    pub(crate) salt: [u8; SALT_BYTES],
    pub(crate) hash: [u8; HASH_BYTES],
}

impl SecretHash {
    /// Stands in for the hash of a token that is not known, so that looking takes as long. Nothing hashes to it that
    /// anybody could find.
    pub(crate) const NOBODY: Self = Self { salt: [0; SALT_BYTES], hash: [0; HASH_BYTES] };

    pub(crate) fn of(token: &Token, salt: [u8; SALT_BYTES]) -> Self {
        Self { salt, hash: digest(token, &salt) }
    }

    /// Whether this is the hash of the token. Takes the same time whatever the answer.
    pub(crate) fn is_of(&self, token: &Token) -> Choice {
        digest(token, &self.salt).ct_eq(&self.hash)
    }
}

/// Not a secret, but nobody needs it in a log either.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn digest(token: &Token, salt: &[u8; SALT_BYTES]) -> [u8; HASH_BYTES] {
    #[cfg(test)]
    COMPUTED.with(|computed| computed.set(computed.get() + 1));
    Sha256::new()
        .chain_update(salt)
        .chain_update(token.id().bytes())
        .chain_update(token.secret())
        .finalize()
        .into()
}

#[cfg(test)]
thread_local! {
    /// How many hashes this thread has computed.
    pub(crate) static COMPUTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(byte: u8) -> Token {
        Token::from_random(&[byte; Token::RANDOM_BYTES])
    }

    #[test]
    fn the_hash_is_of_salt_id_and_secret_and_never_changes() {
        let random: [u8; Token::RANDOM_BYTES] = std::array::from_fn(|place| place as u8 + 16);
        let salt = std::array::from_fn(|place| place as u8);
        // SHA-256 of the bytes 0 to 40, from another implementation: books on disk depend on it.
        let expected = "753629a6117f5a25d338dff10f4dd3d07e63eecc2eaf8eabe773f6399706fe67";
        let hash = SecretHash::of(&Token::from_random(&random), salt).hash;
        assert_eq!(hash.map(|byte| format!("{byte:02x}")).concat(), expected);
    }

    #[test]
    fn only_the_same_token_has_the_hash() {
        let stored = SecretHash::of(&token(1), [7; SALT_BYTES]);
        assert!(bool::from(stored.is_of(&token(1))));
        assert!(!bool::from(stored.is_of(&token(2))));
        for bit in 0..Token::RANDOM_BYTES * 8 {
            let mut random = [1; Token::RANDOM_BYTES];
            random[bit / 8] ^= 1 << (bit % 8);
            assert!(!bool::from(stored.is_of(&Token::from_random(&random))), "bit {bit}");
        }
    }

    #[test]
    fn every_bit_of_the_hash_is_compared() {
        for bit in 0..HASH_BYTES * 8 {
            let mut stored = SecretHash::of(&token(1), [7; SALT_BYTES]);
            stored.hash[bit / 8] ^= 1 << (bit % 8);
            assert!(!bool::from(stored.is_of(&token(1))), "bit {bit}");
        }
    }

    #[test]
    fn equal_secrets_have_different_hashes() {
        assert_ne!(
            SecretHash::of(&token(1), [7; SALT_BYTES]).hash,
            SecretHash::of(&token(1), [8; SALT_BYTES]).hash
        );
    }
}
