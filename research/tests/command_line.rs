//! The command line of the `research` binary. The figures take minutes and have their own tests.
#![allow(clippy::unwrap_used, reason = "clippy does not treat helpers outside `#[test]` functions as tests")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error of one run.
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_research"));
    command.args(arguments);
    command
}

fn research(arguments: &[&str]) -> Run {
    let output = command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn empty_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn list_prints_every_figure() {
    let run = research(&["list"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let names: Vec<_> = run.out.lines().filter_map(|line| line.split(' ').next()).collect();
    let of_papers =
        ["fig8", "fig9", "fig10", "fig11", "fig12", "fig13", "surge", "bloom-clock", "bloom-clock-sweep"];
    assert_eq!(names, [&of_papers[..], &["etx-fig8", "etx-throughput"]].concat());
}

#[test]
fn unknown_figure_prints_the_known_ones() {
    let run = research(&["fig99"]);
    assert_eq!(run.code, Some(2));
    for words in ["'fig99'", "fig8", "fig13", "surge", "bloom-clock", "all", "list"] {
        assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
    }
}

#[test]
fn unwritable_directory_fails_before_the_work() {
    // No user, not even root, can create a directory below a file.
    let file = empty_dir("unwritable").join("file");
    std::fs::write(&file, "").unwrap();
    let out = file.join("figures");
    let run = research(&["all", "--out", out.to_str().unwrap()]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    for words in ["error: ", out.to_str().unwrap(), "Not a directory", "--out DIR"] {
        assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
    }
    assert!(!run.err.contains("1/8"), "a figure has started:\n{}", run.err);
}

#[test]
fn options_without_effect_are_rejected() {
    let out = empty_dir("options");
    for (option, message) in
        [(&["--seed", "3"][..], "fig8 has no seed"), (&["--quick"], "fig8 does not run on databases")]
    {
        let arguments = [&["fig8", "--out", out.to_str().unwrap()], option].concat();
        let run = research(&arguments);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
        for words in ["error: ", message, "remove --"] {
            assert!(run.err.contains(words), "{words:?} is not in:\n{}", run.err);
        }
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "a figure has started");
    }
}

/// As in `research list | head -1`.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = command(&["list"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}
