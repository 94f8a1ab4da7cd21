//! Behaviour that all commands share.

use std::io::Read;
use std::process::Stdio;

use crate::program::{command, jeton};

#[test]
fn version_prints_package_version_and_commit() {
    let run = jeton(&["--version"]);
    let (package, commit) = (concat!("jeton ", env!("CARGO_PKG_VERSION")), run.out.trim());
    assert_eq!(run.code, Some(0));
    let rest = commit.strip_prefix(package).expect("the output begins with the version of the package");
    let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    // Sources without git have no commit.
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
fn a_missing_or_unknown_command_is_a_usage_error() {
    for arguments in [&[][..], &["frobnicate"]] {
        let run = jeton(arguments);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
        assert!(run.err.contains("Usage: jeton"), "{}", run.err);
    }
}

/// As in `jeton config | head -1`.
#[test]
fn a_closed_pipe_is_no_error() {
    for arguments in [&["--help"][..], &["config"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
