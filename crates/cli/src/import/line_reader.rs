//! The records of a file, numbered by their first line, each of bounded length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;

use anyhow::{Result, anyhow};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::csv_line::{self, Position};
use crate::cli_error::CliError;

/// The longest record in bytes. An operation is far shorter.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A record: one line, or several lines of CSV with a quoted field that contains line breaks.
#[derive(Debug, Clone)]
pub struct Line {
    /// Number of the first line, from 1.
    pub number: u64,
    pub text: String,
}

impl Line {
    /// Hash of number and text. Sums of hashes do not depend on the order of completion.
    pub fn hash(&self) -> u64 {
        xxh3_64_with_seed(self.text.as_bytes(), self.number)
    }
}

/// Reads the records of a file.
pub struct Lines {
    input: Box<dyn BufRead>,
    is_csv: bool,
    total: Option<u64>,
    bytes: u64,
    number: u64,
}

impl Lines {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path, is_csv: bool) -> Result<Self> {
        let of = |input: Box<dyn BufRead>, total| Self { input, is_csv, total, bytes: 0, number: 0 };
        if path == Path::new("-") {
            return Ok(of(Box::new(BufReader::new(stdin())), None));
        }
        let opened = File::open(path).and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.map_err(|error| {
            CliError::of(
                error,
                format!("{} cannot be read", path.display()),
                "name an existing file, or - for standard input",
            )
        })?;
        Ok(of(Box::new(BufReader::new(file)), Some(length)))
    }

    /// Length of the file in bytes, if it is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next record.
    pub fn next(&mut self) -> Result<Option<Line>> {
        let number = self.number + 1;
        let (mut text, mut position) = (String::new(), Position::FieldStart);
        loop {
            let invalid = |reason: anyhow::Error| {
                let what = format!("line {number} cannot be read");
                CliError::of(reason, what, "check that it is the right file")
            };
            let mut bytes = Vec::new();
            let rest = (RECORD_BYTES_MAX - text.len()) as u64;
            let length = (&mut self.input).take(rest).read_until(b'\n', &mut bytes);
            let length = length.map_err(|error| invalid(error.into()))?;
            if length == 0 && rest > 0 {
                return Ok((!text.is_empty()).then_some(Line { number, text }));
            }
            if length as u64 == rest && bytes.last() != Some(&b'\n') {
                return Err(invalid(anyhow!("the record is longer than {RECORD_BYTES_MAX} bytes")));
            }
            let line = String::from_utf8(bytes).map_err(|_| invalid(anyhow!("it is not UTF-8")))?;
            self.bytes += length as u64;
            self.number += 1;
            text.push_str(&line);
            match csv_line::scan(position, &line) {
                Ok(Position::Quoted) if self.is_csv => position = Position::Quoted,
                _ => {
                    text.truncate(text.trim_end_matches(['\n', '\r']).len());
                    return Ok(Some(Line { number, text }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_line_breaks_belong_to_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "key,id\n\"a\nb\",1\r\nc,2\n\"open,3\n").unwrap();
        let read = |is_csv| {
            let mut lines = Lines::open(&path, is_csv).unwrap();
            std::iter::from_fn(|| lines.next().unwrap())
                .map(|line| (line.number, line.text))
                .collect::<Vec<_>>()
        };
        let expected = [(1, "key,id"), (2, "\"a\nb\",1"), (4, "c,2"), (5, "\"open,3\n")];
        assert_eq!(read(true), expected.map(|(number, text)| (number, text.to_owned())));
        assert_eq!(read(false).len(), 5, "other formats have one record per line");
    }
}
