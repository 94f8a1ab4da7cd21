//! What tokens have created so far, in a file: a restart should be no way around a limit.
//!
//! It lies with the store whose tables and counters it counts, not with the tokens: the same tokens can be used on another store. What must
//! hold: whoever reads sees all numbers of one moment, also after a crash; and numbers that cannot be read are an error, because taking them for
//! zero would lift every limit.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::access::Used;
use crate::token_file::{FileError, TokenFile};
use crate::token_file_format::ParseError;

const VERSION: u32 = 1;

/// Where it is kept what tokens have created.
#[derive(Debug, Clone)]
pub struct UsageFile {
    /// Replaced as a book is.
    file: TokenFile,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    tokens: Vec<Stored>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    name: String,
    tables: u64,
    counters: u64,
}

impl UsageFile {
    /// Its name in the directory of a store.
    pub const NAME: &str = "tokens-used.json";

    /// The file with this path. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: TokenFile::new(path) }
    }

    /// What was written last; nothing if nothing was.
    pub fn read(&self) -> Result<Vec<Used>, FileError> {
        let path = self.file.path();
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FileError::System { file: path.into(), doing: "read", source }),
            Ok(text) => text,
        };
        let broken = |place: String, why: String| FileError::Broken {
            file: path.into(),
            broken: ParseError { place, why },
        };
        let whole: Whole = serde_json::from_slice(&text).map_err(|error| {
            broken(format!("line {}, column {}", error.line(), error.column()), error.to_string())
        })?;
        if whole.version != VERSION {
            let why = format!("{} is not a version this program knows, which is {VERSION}", whole.version);
            return Err(broken("version".into(), why));
        }
        let used = whole.tokens.into_iter();
        Ok(used.map(|Stored { name, tables, counters }| Used { name, tables, counters }).collect())
    }

    /// Replaces what was written. It is durable when this returns.
    pub fn write(&self, used: &[Used]) -> Result<(), FileError> {
        let stored = used.iter().map(|Used { name, tables, counters }| Stored {
            name: name.clone(),
            tables: *tables,
            counters: *counters,
        });
        let whole = Whole { version: VERSION, tokens: stored.collect() };
        let text = serde_json::to_string_pretty(&whole);
        let text = text.expect("numbers, texts and lists of them are always JSON") + "\n";
        let staged = self.file.stage(text.as_bytes())?;
        self.file.commit(&staged)
    }
}
