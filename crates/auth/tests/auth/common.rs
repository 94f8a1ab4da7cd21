//! A book, its file and tokens to try.

use std::path::PathBuf;

use jeton_auth::{Access, Grant, RANDOM_BYTES, Rights, TableRule, Token, TokenFile, TokenStore};
use tempfile::TempDir;

/// A moment like any other.
pub const NOW: u64 = 1_800_000_000_000;

/// Bytes that look random, different for every number.
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

/// May do everything in all tables.
pub fn everything(name: &str) -> Grant {
    Grant { tables: vec![TableRule { rights: Rights::ALL, ..rule("*", "read") }], ..Grant::new(name) }
}

/// A book in a file of its own.
pub struct Home {
    folder: TempDir,
    pub file: TokenFile,
}

impl Home {
    /// With these tokens.
    pub fn new(grants: &[Grant]) -> (Self, Vec<Token>) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let add_all = |book: &mut TokenStore| {
            let numbered = grants.iter().zip(0..);
            numbered.map(|(grant, number)| book.add(grant.clone(), &random(number), NOW)).collect()
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

    pub fn text(&self) -> String {
        std::fs::read_to_string(self.file.path()).unwrap()
    }
}
