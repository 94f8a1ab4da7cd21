//! Pure code takes time, randomness, disk and network from its caller.

use std::collections::BTreeSet;

use super::Violation;
use super::code::Code;
use super::tree::Tree;

const WHY: &str = "pure code runs in the server, in the seeded simulator and in a replay of the log; \
                   with one hidden input a failing seed cannot be reproduced";

/// Pure code: directories, or single files with `.rs` at the end.
const PURE: &[&str] = &[
    "crates/filter/src",
    "crates/clock/src",
    "crates/core/src",
    "crates/etx/src/protocol",
    "crates/etx/src/branch_recovery",
    "crates/etx/src/decision",
    "crates/etx/src/xid",
    "crates/etx/src/decision_codec",
    "crates/etx/src/answered_watermarks",
    "crates/client/src/retry",
    "crates/geo/src/protocol",
    "research/src/paper_filter",
    "research/src/clock_estimate",
];

/// Hidden inputs: patterns, description, fix.
const BANNED: &[(&[&str], &str, &str)] = &[
    (&["Instant::now", "SystemTime::now"], "the system clock", "take the time as a parameter"),
    (
        &["rand::", "thread_rng", "getrandom", "RandomState"],
        "randomness",
        "take the random value, key or seed as a parameter",
    ),
    (&["std::fs", "File::"], "the file system", "take the bytes, or return what is to be written"),
    (&["std::net"], "the network", "take the message, or return what is to be sent"),
    (
        &["thread::spawn", "thread::sleep", "thread::scope", "thread::Builder"],
        "threads",
        "let the caller start threads",
    ),
    (&["std::env"], "the environment", "take the setting as a parameter"),
    (&["tokio", "async"], "async code", "write a state machine: input in, effects out; its driver awaits"),
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let files: Vec<(&str, &str)> = tree.texts(".rs").filter(|(path, _)| is_pure(path)).collect();
    let tests: BTreeSet<String> = files.iter().flat_map(|(path, text)| test_files(path, text)).collect();

    let mut violations = Vec::new();
    for (path, text) in files.into_iter().filter(|(path, _)| !is_among(path, &tests)) {
        let code = Code::without_tests(text);
        for (patterns, what, fix) in BANNED {
            let found = patterns
                .iter()
                .flat_map(|pattern| code.lines(pattern).into_iter().map(|line| (line, *pattern)));
            let lines: BTreeSet<(usize, &str)> = found.collect();
            // `std::fs::File::open` is one mistake, not two.
            let mut seen = BTreeSet::new();
            violations.extend(lines.into_iter().filter(|(line, _)| seen.insert(*line)).map(
                |(line, pattern)| Violation {
                    path: path.into(),
                    line,
                    what: format!("`{pattern}`: {what} in pure code"),
                    why: WHY,
                    fix: (*fix).into(),
                },
            ));
        }
    }
    violations
}

fn is_pure(path: &str) -> bool {
    PURE.iter()
        .any(|place| path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/') || rest == ".rs"))
}

/// The paths, without `.rs`, of the modules that a file declares for tests only.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_string(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    Code::without_tests(text).test_modules.into_iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Whether a file is one of these modules, or inside one.
fn is_among(path: &str, modules: &BTreeSet<String>) -> bool {
    modules.iter().any(|module| {
        path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of violations in a file of the filter.
    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("crates/filter/src/a.rs", text)]))
            .into_iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn every_banned_word_is_found() {
        for code in [
            "let t = Instant::now();",
            "let t = std::time::SystemTime::now();",
            "let x: u8 = rand::random();",
            "use rand::Rng;",
            "let mut r = thread_rng();",
            "getrandom(&mut key);",
            "let s = RandomState::new();",
            "use std::fs;",
            "let f = File::open(p);",
            "let f = std::fs::File::open(p);",
            "use std::net::TcpStream;",
            "std::thread::spawn(f);",
            "thread::sleep(d);",
            "thread::Builder::new();",
            "let v = std::env::var(\"V\");",
            "#[tokio::main]",
            "async fn f() {}",
        ] {
            assert_eq!(lines(&format!("//! A.\n\n{code}\n")), [3], "{code}");
        }
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let text = "//! Never Instant::now().\n/// Not std::fs either.\nfn f() {\n    g(\"tokio\"); // thread::sleep\n}\n\
                    use std::time::Instant;\nfn operand::rand_x() {}\nuse std::{fmt, io::Read};\n";
        assert!(lines(text).is_empty());
    }

    #[test]
    fn test_code_may_be_impure() {
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n\nuse std::net;\n"), [6]);

        let declare = "//! A.\n#[cfg(test)]\nmod a_test;\n";
        let files = [("crates/core/src/lib.rs", declare), ("crates/core/src/a_test.rs", "use std::fs;")];
        assert_eq!(check(&Tree::of(&files)), []);
        let files =
            [("crates/core/src/lib.rs", "mod a_test;"), ("crates/core/src/a_test.rs", "use std::fs;")];
        assert_eq!(check(&Tree::of(&files)).len(), 1, "the module is not declared for tests");
        let files = [("crates/core/src/b.rs", declare), ("crates/core/src/b/a_test.rs", "use std::fs;")];
        assert_eq!(check(&Tree::of(&files)), []);
    }

    #[test]
    fn only_pure_code_is_checked() {
        let code = "use std::fs;";
        for (path, expected) in [
            ("crates/clock/src/lib.rs", 1),
            ("crates/core/src/deep/a.rs", 1),
            ("crates/etx/src/protocol.rs", 1),
            ("crates/etx/src/branch_recovery/a.rs", 1),
            ("crates/geo/src/protocol.rs", 1),
            ("crates/etx/src/sweeper.rs", 0),
            ("crates/etx/src/running.rs", 0),
            ("crates/filter/tests/a.rs", 0),
            ("crates/filter/benches/a.rs", 0),
            ("crates/server/src/a.rs", 0),
        ] {
            assert_eq!(check(&Tree::of(&[(path, code)])).len(), expected, "{path}");
        }
    }
}
