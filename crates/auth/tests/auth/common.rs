//! Token files and grants for the tests.

use std::path::PathBuf;

use jeton_auth::{Access, AuthContext, Grant, RANDOM_BYTES, TableRule, Token, TokenFile, TokenStore};
use tempfile::TempDir;

pub const NOW: u64 = 1_800_000_000_000;

/// Pseudorandom bytes, different for every number.
pub fn random(number: u64) -> [u8; RANDOM_BYTES] {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::array::from_fn(|_| {
        state ^= state >> 27;
        state = state.wrapping_mul(0x94d0_49bb_1331_11eb).wrapping_add(0x2545_f491_4f6c_dd1d);
        (state >> 56) as u8
    })
}

pub fn rule(pattern: &str, rights: &str) -> TableRule {
    TableRule { pattern: pattern.parse().unwrap(), rights: rights.parse().unwrap() }
}

/// Every right in all tables.
pub fn everything(name: &str) -> Grant {
    Grant { tables: vec![rule("*", "read add admin")], ..Grant::new(name) }
}

pub fn store_with(grant: Grant) -> (TokenStore, Token) {
    let mut store = TokenStore::new();
    let token = store.add(grant, &random(1), NOW).unwrap();
    (store, token)
}

/// The text with another character at `at`.
pub fn with_other_character(text: &str, at: usize) -> String {
    let other = if &text[at..=at] == "0" { "1" } else { "0" };
    [&text[..at], other, &text[at + 1..]].concat()
}

/// A directory with a token file.
pub struct TokenDir {
    folder: TempDir,
    pub file: TokenFile,
}

impl TokenDir {
    /// A token file with these tokens.
    pub fn new(grants: &[Grant]) -> (Self, Vec<Token>) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let add_all = |store: &mut TokenStore| {
            let numbered = grants.iter().zip(0..);
            numbered.map(|(grant, number)| store.add(grant.clone(), &random(number), NOW)).collect()
        };
        let tokens = file.edit(add_all).unwrap();
        (Self { folder, file }, tokens)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn access(&self) -> Access {
        Access::from_file(self.file.path()).unwrap()
    }

    /// Access control by the file, and the context of each token.
    pub fn authenticated(&self, tokens: &[Token]) -> (Access, Vec<AuthContext>) {
        let access = self.access();
        let contexts = tokens.iter().map(|token| access.authenticate(token.reveal(), NOW).unwrap()).collect();
        (access, contexts)
    }

    pub fn text(&self) -> String {
        std::fs::read_to_string(self.file.path()).unwrap()
    }
}
