//! Replays the corpus of the fuzz target `run`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use fuzzed::{CUT, SEALED};

/// The last run, of two buckets. Before it there are eight runs of one bucket, after it the manifest.
const LARGE: u8 = 8;
const MANIFEST: u8 = 9;

/// An input with one change.
fn change(choice: u8, file: u8, at: u16, bytes: &[u8]) -> Vec<u8> {
    [&[choice, file], &at.to_le_bytes()[..], &[bytes.len() as u8], bytes].concat()
}

fn seeds() -> replay::Seeds {
    let number = |number: u64| number.to_le_bytes();
    // Where the entries of the manifest begin, of 25 bytes each: number, generation, checksum, tier.
    const LISTED: u16 = 30;
    vec![
        ("none", vec![0]),
        ("header", change(0, LARGE, 20, &[1])),
        ("directory", change(0, LARGE, 64 + 30, &[4])),
        ("record", change(0, LARGE, 300, &[128, 0, 1])),
        ("manifest", change(0, MANIFEST, 9, &[1])),
        ("cut", change(0, LARGE | CUT, 200, &[])),
        ("grown", change(0, 0, u16::MAX, &[1, 2, 3])),
        ("empty-manifest", change(0, MANIFEST | CUT, 0, &[])),
        ("sealed", change(SEALED, 0, 0, &[])),
        ("ids", change(SEALED, 0, 32, &number(u64::MAX / 2))),
        ("buckets", change(SEALED, 3, 24, &number(1 << 60))),
        ("record-length", change(SEALED, 1, 64 + 96 + 16, &[0xff, 0x7f])),
        ("keys-out-of-order", change(SEALED, 2, 64 + 96, &[0xff; 16])),
        ("bucket-of-no-ids", change(SEALED, LARGE, 64 + 12, &[0])),
        ("bucket-beyond-the-end", change(SEALED, LARGE, 64 + 8, &[0xff; 4])),
        ("next-run", change(SEALED, MANIFEST, 8, &number(u64::MAX))),
        ("next-run-in-use", change(SEALED, MANIFEST, 8, &number(0))),
        ("listed-twice", change(SEALED, MANIFEST, LISTED + 25, &number(0))),
        ("tier", change(SEALED, MANIFEST, LISTED + 24, &[255])),
        ("generation", change(SEALED, 5, 16, &number(3))),
    ]
}

#[test]
fn damaged_runs_and_manifests_are_refused_or_correct() {
    replay::seeds("run", &seeds());
    replay::each("run", fuzzed::run);
}
