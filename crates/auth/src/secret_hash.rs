//! The stored form of a secret: SHA-256 of a salt, the id and the secret.
//!
//! Why a fast hash: slow hashes (scrypt, Argon2) protect passwords that people choose, because a few billion
//! guesses cover most of them. A secret here is 160 random bits: at 10^12 guesses per second, half of them
//! take about 10^28 years. A slow hash would also be an attack surface: every HTTP request carries a token,
//! so requests with wrong tokens would occupy the processors.
//!
//! The salt prevents equal secrets from having equal hashes, and precomputed tables from serving two stores.
//! The input has a fixed length and fits one block.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::token::Token;

pub(crate) const SALT_BYTES: usize = 16;
pub(crate) const HASH_BYTES: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretHash {
    pub(crate) salt: [u8; SALT_BYTES],
    pub(crate) hash: [u8; HASH_BYTES],
}

impl SecretHash {
    /// A placeholder for unknown tokens, so that their lookup takes the same time. No known input has this
    /// hash.
    pub(crate) const UNKNOWN: Self = Self { salt: [0; SALT_BYTES], hash: [0; HASH_BYTES] };

    pub(crate) fn of(token: &Token, salt: [u8; SALT_BYTES]) -> Self {
        Self { salt, hash: digest(token, &salt) }
    }

    /// Whether this is the hash of the token, in constant time.
    pub(crate) fn is_of(&self, token: &Token) -> Choice {
        digest(token, &self.salt).ct_eq(&self.hash)
    }
}

/// Keeps hashes out of logs.
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
    /// Number of hashes that this thread has computed.
    pub(crate) static COMPUTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(byte: u8) -> Token {
        Token::from_random(&[byte; Token::RANDOM_BYTES])
    }

    #[test]
    fn the_hash_covers_salt_id_and_secret() {
        let random: [u8; Token::RANDOM_BYTES] = std::array::from_fn(|place| place as u8 + 16);
        let salt = std::array::from_fn(|place| place as u8);
        // SHA-256 of the bytes 0 to 40, from another implementation: token files depend on it.
        let expected = "753629a6117f5a25d338dff10f4dd3d07e63eecc2eaf8eabe773f6399706fe67";
        let hash = SecretHash::of(&Token::from_random(&random), salt).hash;
        assert_eq!(hash.map(|byte| format!("{byte:02x}")).concat(), expected);
    }

    #[test]
    fn only_the_same_token_matches_the_hash() {
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
        let [one, other] = [7, 8].map(|byte| SecretHash::of(&token(1), [byte; SALT_BYTES]).hash);
        assert_ne!(one, other);
    }
}
