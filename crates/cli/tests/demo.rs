//! `jeton demo` as a pipe sees it.
//!
//! The full screen needs a terminal; its pictures are tested where they are drawn, in `src/demo/view.rs`.

mod program;

use program::jeton;

/// Long enough for all four phases, short enough for an unoptimised build.
const SHORT: &[&str] = &["demo", "--fast", "--seconds", "6", "--seed", "1"];

#[test]
fn the_same_seed_gives_the_same_text() {
    let (first, second) = (jeton(SHORT), jeton(SHORT));
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_eq!(first.out, second.out);
    assert_eq!(first.err, "");

    let other = jeton(&["demo", "--fast", "--seconds", "6", "--seed", "2"]);
    assert_ne!(first.out, other.out);
}

#[test]
fn nothing_is_missed_and_the_summary_says_so() {
    let out = jeton(SHORT).out;
    for words in ["ids sent", " retries caught, 0 missed", "; 0 known now", "The surge", "exact table"] {
        assert!(out.contains(words), "{words:?} is not in:\n{out}");
    }
    let rows = out.lines().filter(|line| line.contains(" | ")).count();
    assert_eq!(rows, 1 + 6, "a heading, and a line a second:\n{out}");
    assert!(out.lines().all(|line| line.len() <= 80), "80 columns are enough:\n{out}");
}

#[test]
fn a_pipe_gets_no_escape_codes() {
    let out = jeton(&["demo", "--seconds", "3", "--speed", "1000"]).out;
    assert!(out.contains("0 missed"), "{out}");
    assert!(!out.contains('\x1b'), "{out}");
}

#[test]
fn a_wrong_number_is_told_with_what_would_be_right() {
    for (arguments, words) in [
        (["demo", "--seconds", "0"], "3..=120"),
        (["demo", "--speed", "0"], "between 0.01 and 1000"),
        (["demo", "--speed", "NaN"], "between 0.01 and 1000"),
        (["demo", "--seed", "one"], "invalid digit"),
    ] {
        let run = jeton(&arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}");
        assert!(run.err.contains(words), "{arguments:?}:\n{}", run.err);
    }
}
