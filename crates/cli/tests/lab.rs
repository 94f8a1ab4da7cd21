//! `jeton lab` as a script sees it. The figures themselves take minutes, and are tested in the lab.

mod program;

use std::path::{Path, PathBuf};

use program::jeton;

/// An empty directory of this test's own.
fn empty_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("the old one goes");
    }
    std::fs::create_dir_all(&path).expect("a new one comes");
    path
}

#[test]
fn the_list_has_every_figure() {
    let run = jeton(&["lab", "list"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let names: Vec<_> = run.out.lines().filter_map(|line| line.split(' ').next()).collect();
    let of_papers =
        ["fig8", "fig9", "fig10", "fig11", "fig12", "fig13", "surge", "bloom-clock", "bloom-clock-sweep"];
    assert_eq!(names, [&of_papers[..], &["etx-fig8", "etx-throughput"]].concat());
}

#[test]
fn an_unknown_figure_is_answered_with_the_known_ones() {
    let run = jeton(&["lab", "fig99"]);
    assert_eq!(run.code, Some(2));
    for words in ["'fig99'", "fig8", "fig13", "surge", "bloom-clock", "all", "list"] {
        assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_told_before_the_work() {
    // Below a file there is no directory, whoever asks.
    let file = empty_dir("unwritable").join("file");
    std::fs::write(&file, "").unwrap();
    let out = file.join("figures");
    let run = jeton(&["lab", "all", "--out", out.to_str().unwrap()]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    for words in ["error: ", out.to_str().unwrap(), "why: ", "fix: ", "--out DIR"] {
        assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
    }
    assert!(!run.err.contains("1/8"), "no work was begun:\n{}", run.err);
}

#[test]
fn a_seed_for_a_figure_without_chance_is_refused() {
    let out = empty_dir("seed");
    let run = jeton(&["lab", "fig8", "--seed", "3", "--out", out.to_str().unwrap()]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    for words in ["error: ", "fig8 has no seed", "fix: "] {
        assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "no work was begun");
}
