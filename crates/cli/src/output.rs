//! Standard output, written so that a reader who goes away is no failure.
//!
//! `println!` panics when the pipe is closed. Everything that a command prints goes through [`line()`] instead: it
//! returns the error, and `main` ends quietly on it.

use std::io::{self, Write};

use anyhow::Result;

use crate::cli_error::CliError;

/// Writes one line to standard output, at once: a reader of a pipe sees it when it happens.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|why| match why.kind() {
        io::ErrorKind::BrokenPipe => anyhow::Error::new(Closed),
        _ => CliError::of(why, "the output could not be written", "see that there is room where it goes"),
    })
}

/// Nobody reads our output any more. A type of its own: a broken connection to a server is no reason to end quietly.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output")
    }
}

impl std::error::Error for Closed {}

/// Writes a document for programs: on one line, so that a reader of lines can take it.
pub fn json(value: &serde_json::Value) -> Result<()> {
    line(&value.to_string())
}

/// Tells something beside the output, on standard error. If nobody can hear it, the work goes on.
pub fn aside(text: &str) {
    let _unheard = writeln!(io::stderr(), "{text}");
}

/// Whether the error says that nobody reads our output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.is::<Closed>()
}

/// Rows under a heading, each column as wide as its widest word. The last one is not filled up.
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
