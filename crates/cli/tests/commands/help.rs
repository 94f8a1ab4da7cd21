//! The help of every command.

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
    &["table", "delete"],
    &["tx", "run"],
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
fn every_command_has_help() {
    for command in COMMANDS {
        let run = jeton(&[command, &["--help"][..]].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{command:?}");
        assert!(run.out.contains(&format!("Usage: jeton {}", command.join(" "))), "{}", run.out);
    }
}

/// Each line of a list of commands begins with a name and says what the command does.
#[test]
fn every_command_is_described_in_the_list() {
    for group in [&[][..], &["table"], &["token"], &["tx"]] {
        let help = jeton(&[group, &["--help"][..]].concat()).out;
        let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
        // Other lines continue a description.
        for line in list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            assert!(line.split_whitespace().count() > 2, "{group:?}: {line}");
        }
    }
}

#[test]
fn every_client_command_has_the_server_flags() {
    for command in ["add", "get", "watch", "import", "top", "bench"] {
        let help = jeton(&[command, "--help"]).out;
        for flag in ["--resp", "--http", "--token-file", "--tls-ca", "--timeout", "JETON_TOKEN"] {
            assert!(help.contains(flag), "{command}: {flag}");
        }
    }
}
