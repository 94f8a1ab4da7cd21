//! The lines of a file, numbered, each of bounded length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;

use anyhow::{Result, anyhow};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::cli_error::CliError;

/// The longest line. An operation is far shorter.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A line.
#[derive(Debug, Clone)]
pub struct Line {
    /// From one.
    pub number: u64,
    pub text: String,
}

impl Line {
    /// A number of what is written where: to be summed up, in whatever order the lines are done.
    pub fn hash(&self) -> u64 {
        xxh3_64_with_seed(self.text.as_bytes(), self.number)
    }
}

/// The lines of a file.
pub struct Lines {
    input: Box<dyn BufRead>,
    total: Option<u64>,
    bytes: u64,
    number: u64,
}

impl Lines {
    /// Of this file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { input: Box::new(BufReader::new(stdin())), total: None, bytes: 0, number: 0 });
        }
        let opened = File::open(path).and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.map_err(|why| {
            CliError::of(
                why,
                format!("{} cannot be read", path.display()),
                "name a file that is there, or - for standard input",
            )
        })?;
        Ok(Self { input: Box::new(BufReader::new(file)), total: Some(length), bytes: 0, number: 0 })
    }

    /// The length of the whole, if it is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line.
    pub fn next(&mut self) -> Result<Option<Line>> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        let number = self.number + 1;
        let wrong = |why: anyhow::Error| {
            CliError::of(why, format!("line {number} cannot be read"), "see that it is the right file")
        };
        let length = read.map_err(|why| wrong(why.into()))?;
        if length == 0 {
            return Ok(None);
        }
        if length as u64 == LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
            return Err(wrong(anyhow!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        self.bytes += length as u64;
        self.number = number;
        let text = String::from_utf8(bytes).map_err(|_| wrong(anyhow!("it is not UTF-8")))?;
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        Ok(Some(Line { number, text }))
    }
}
