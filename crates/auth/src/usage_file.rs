//! The file of token usage, so that a restart does not bypass a quota.
//!
//! The file is in the directory of the store whose tables and counters it counts, not beside the token file:
//! the same tokens can be used on another store. What must hold: a reader sees the numbers of one point in
//! time, also after a crash; and a malformed file is an error, because zeros would lift every quota.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::access::Used;
use crate::token_file::{FileError, TokenFile};
use crate::token_file_format::ParseError;

const VERSION: u32 = 1;

#[derive(Debug, Clone)]
pub struct UsageFile {
    /// Replaced atomically like a token file.
    file: TokenFile,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    tokens: Vec<Used>,
}

impl UsageFile {
    /// The file name in the directory of a store.
    pub const NAME: &str = "tokens-used.json";

    /// The file with this path. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: TokenFile::new(path) }
    }

    /// Reads the usage; empty if there is no file.
    pub fn read(&self) -> Result<Vec<Used>, FileError> {
        let path = self.file.path();
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FileError::System { file: path.into(), doing: "read", source }),
            Ok(text) => text,
        };
        let broken = |place, why| FileError::Broken { file: path.into(), broken: ParseError { place, why } };
        let whole: Whole = serde_json::from_slice(&text).map_err(|error| {
            broken(format!("line {}, column {}", error.line(), error.column()), error.to_string())
        })?;
        if whole.version != VERSION {
            let why = format!("version {} is not supported; this program supports {VERSION}", whole.version);
            return Err(broken("version".into(), why));
        }
        Ok(whole.tokens)
    }

    /// Replaces the file. The usage is durable when this returns.
    pub fn write(&self, used: &[Used]) -> Result<(), FileError> {
        let whole = Whole { version: VERSION, tokens: used.to_vec() };
        let text = serde_json::to_string_pretty(&whole);
        let text = text.expect("a value of numbers, strings and lists serializes to JSON") + "\n";
        let staged = self.file.stage(text.as_bytes())?;
        self.file.commit(&staged)
    }
}
