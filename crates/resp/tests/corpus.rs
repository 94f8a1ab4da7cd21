//! Runs the checks of the fuzz targets on every input of their corpus.

mod common;

use std::path::Path;
use std::{fs, io};

/// Calls `check` with every input of a target and returns their number.
fn each(target: &str, check: fn(&[u8])) -> io::Result<usize> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        check(&fs::read(entry?.path())?);
        count += 1;
    }
    Ok(count)
}

#[test]
fn requests() -> io::Result<()> {
    assert!(each("resp_request", common::fuzzed::request)? > 10);
    Ok(())
}

#[test]
fn replies() -> io::Result<()> {
    assert!(each("resp_reply", common::fuzzed::reply)? > 10);
    Ok(())
}
