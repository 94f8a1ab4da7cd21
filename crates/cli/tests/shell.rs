//! How the binary behaves in a shell, whatever the command.

mod program;

use std::io::Read;
use std::process::Stdio;

use program::{command, jeton};

#[test]
fn the_version_is_the_one_of_the_package_and_the_commit() {
    let run = jeton(&["--version"]);
    let (package, commit) = (concat!("jeton ", env!("CARGO_PKG_VERSION")), run.out.trim());
    assert_eq!(run.code, Some(0));
    let rest = commit.strip_prefix(package).expect("it begins with the version of the package");
    let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    // Sources that are no clone have no commit.
    assert!(rest.is_empty() || commit.is_some_and(is_commit), "{}", run.out);
}

#[test]
fn every_shell_gets_completions_of_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let run = jeton(&["completions", shell]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
        for words in ["import", "doctor", "insecure", "resp-tls"] {
            assert!(run.out.contains(words), "{shell}: {words:?}");
        }
    }
}

#[test]
fn help_names_every_command() {
    let run = jeton(&["--help"]);
    assert_eq!(run.code, Some(0));
    for words in [
        "serve",
        "add",
        "get",
        "watch",
        "table",
        "import",
        "top",
        "bench",
        "token",
        "config",
        "doctor",
        "backup",
        "restore",
        "completions",
    ] {
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

/// As in `jeton config | head -1`.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    for arguments in [&["--help"][..], &["config"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
