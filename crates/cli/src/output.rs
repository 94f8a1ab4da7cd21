//! Standard output. A closed pipe ends the program quietly.
//!
//! `println!` panics when the pipe is closed. Commands use [`line()`] instead, which returns an error that
//! `main` recognises.

use std::io::{self, Write};

use anyhow::Result;

use crate::cli_error::CliError;

/// Writes one line to standard output and flushes it.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => anyhow::Error::new(Closed),
        _ => CliError::of(error, "the output was not written", "check the disk space of its target"),
    })
}

/// The reader of standard output is gone. A broken connection to a server is another error.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for Closed {}

/// Writes a JSON document on one line.
pub fn json(value: &serde_json::Value) -> Result<()> {
    line(&value.to_string())
}

/// Writes a line to standard error. Errors are ignored.
pub fn aside(text: &str) {
    let _ignored = writeln!(io::stderr(), "{text}");
}

/// Whether the error is a closed standard output.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.is::<Closed>()
}

/// Aligns rows under a heading. The last column is not padded.
pub fn columns<const N: usize>(heading: &[String; N], rows: &[[String; N]]) -> Vec<String> {
    let all = || std::iter::once(heading).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    all().map(line).collect()
}
