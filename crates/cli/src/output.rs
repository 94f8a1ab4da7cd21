//! Standard output, written so that a reader who goes away is no failure.
//!
//! `println!` panics when the pipe is closed. Everything that a command prints goes through [`line()`] instead: it
//! returns the error, and `main` ends quietly on it.

use std::io::{self, Write};

use anyhow::Result;

use crate::failure::Failure;

/// Writes one line to standard output, at once: a reader of a pipe sees it when it happens.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|why| {
        Failure::of(why, "the output could not be written", "see that there is room where it goes")
    })
}

/// Whether the error says that nobody reads our output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
