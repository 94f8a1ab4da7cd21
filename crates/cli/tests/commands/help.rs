//! What every command says about itself.

use crate::program::jeton;

const COMMANDS: &[&[&str]] = &[
    &["serve"],
    &["add"],
    &["get"],
    &["watch"],
    &["table", "create"],
    &["table", "set"],
    &["table", "show"],
    &["table", "list"],
    &["tx", "issue"],
    &["tx", "list"],
    &["tx", "show"],
    &["tx", "resolve"],
    &["import"],
    &["top"],
    &["bench"],
    &["token", "create"],
    &["token", "list"],
    &["token", "rotate"],
    &["token", "revoke"],
    &["config"],
    &["doctor"],
    &["backup"],
    &["restore"],
];

#[test]
fn every_command_tells_what_it_takes() {
    for command in COMMANDS {
        let run = jeton(&[command, &["--help"][..]].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{command:?}");
        assert!(run.out.contains(&format!("Usage: jeton {}", command.join(" "))), "{}", run.out);
    }
}

/// Whoever asks a server is asked for the same things everywhere.
#[test]
fn every_command_that_asks_a_server_takes_the_same_flags() {
    for command in ["add", "get", "watch", "import", "top", "bench"] {
        let help = jeton(&[command, "--help"]).out;
        for flag in ["--resp", "--http", "--token-file", "--tls-ca", "--timeout", "JETON_TOKEN"] {
            assert!(help.contains(flag), "{command}: {flag}");
        }
    }
}
