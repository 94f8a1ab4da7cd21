//! How the binary behaves in a shell, whatever the command.

mod program;

use std::io::Read;
use std::process::Stdio;

use program::{command, jeton};

#[test]
fn the_version_is_the_one_of_the_package() {
    let run = jeton(&["--version"]);
    assert_eq!((run.out.trim(), run.code), (concat!("jeton ", env!("CARGO_PKG_VERSION")), Some(0)));
}

#[test]
fn help_names_every_command() {
    let run = jeton(&["--help"]);
    assert_eq!(run.code, Some(0));
    for words in ["demo", "lab"] {
        assert!(run.out.contains(words), "{words:?} is not in:\n{}", run.out);
    }
}

#[test]
fn no_command_and_a_wrong_one_are_errors_of_usage() {
    for arguments in [&[][..], &["frobnicate"]] {
        let run = jeton(arguments);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
        assert!(run.err.contains("Usage: jeton"), "{}", run.err);
    }
}

/// As in `jeton lab list | head -1`.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    for arguments in [&["lab", "list"][..], &["demo", "--fast", "--seconds", "3"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
