//! Replays the corpus of a fuzz target without the fuzzer. The corpus tests of the crates include this file.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Valid inputs, by name.
pub type Seeds = Vec<(&'static str, Vec<u8>)>;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/corpus").join(target)
}

/// Calls `check` with every input of a target, of which there must be at least ten.
pub fn each(target: &str, check: impl Fn(&[u8])) {
    let folder = folder(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a file of the corpus").path();
        let input = fs::read(&path).expect("an input of the corpus");
        let passed = catch_unwind(AssertUnwindSafe(|| check(&input)));
        assert!(passed.is_ok(), "the check failed for {}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{} has {count} inputs", folder.display());
}

/// Checks that the seeds are in the corpus as they are encoded today; `JETON_SEEDS=write` writes them.
pub fn seeds(target: &str, seeds: &Seeds) {
    let folder = folder(target);
    for (name, bytes) in seeds {
        let path = folder.join(format!("seed-{name}"));
        if std::env::var_os("JETON_SEEDS").is_some_and(|value| value == "write") {
            fs::create_dir_all(&folder).expect("a folder for the corpus");
            fs::write(&path, bytes).expect("room for a seed");
        }
        let kept = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            kept == *bytes,
            "{} is not encoded as today; write it with JETON_SEEDS=write",
            path.display()
        );
    }
}
