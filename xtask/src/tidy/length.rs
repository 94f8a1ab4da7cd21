//! Limits the length of source files, tests not counted, and of comment lines. rustfmt wraps code, not
//! comments.

use super::Violation;
use super::code::Code;
use super::tree::Tree;

const LINES_MAX: usize = 500;

/// As `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 110;

/// A file that begins a line with this, followed by the reason, may be longer.
const EXCEPTION: &str = "// Long file: ";

const WHY: &str = "a file covers one concept; a long file hides several";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let files = long_files(tree);
    let comments = tree.texts(".rs").flat_map(|(path, text)| {
        let is_long = |line: &str| {
            line.trim_start().starts_with("//") && !line.contains('|') && line.chars().count() > COLUMNS_MAX
        };
        let lines = text.lines().zip(1..).filter(move |(line, _)| is_long(line));
        lines.map(move |(_, line)| Violation {
            path: path.into(),
            line,
            what: format!("a comment has more than {COLUMNS_MAX} columns"),
            why: "long lines are hard to read",
            fix: "wrap it".into(),
        })
    });
    files.chain(comments).collect()
}

fn long_files(tree: &Tree) -> impl Iterator<Item = Violation> {
    tree.texts(".rs")
        .filter(|(path, text)| !is_test(path) && !text.lines().any(|line| line.starts_with(EXCEPTION)))
        .filter(|(_, text)| text.lines().count() > LINES_MAX)
        .map(|(path, text)| (path, text.lines().count() - Code::without_tests(text).test_lines))
        .filter(|&(_, lines)| lines > LINES_MAX)
        .map(|(path, lines)| Violation {
            path: path.into(),
            line: LINES_MAX + 1,
            what: format!("{lines} lines, the limit is {LINES_MAX}"),
            why: WHY,
            fix: format!("move one concept into a file of its own, or justify it in a line `{EXCEPTION}…`"),
        })
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_the_limit_is_found() {
        let (full, over) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        assert_eq!(check(&Tree::of(&[("a/full.rs", &full), ("a/over.md", &over)])), []);

        let violations = check(&Tree::of(&[("a/over.rs", &over)]));
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].path.as_str(), violations[0].line), ("a/over.rs", LINES_MAX + 1));
    }

    #[test]
    fn a_long_comment_is_found() {
        let text = format!("fn f() {{}}\n    // {}\n    // {}\n", "x".repeat(103), "y".repeat(104));
        let found: Vec<usize> =
            check(&Tree::of(&[("a/a.rs", &text)])).iter().map(|found| found.line).collect();
        assert_eq!(found, [3]);
    }

    #[test]
    fn tests_and_justified_files_may_be_longer() {
        let code = "fn f() {}\n".repeat(LINES_MAX - 10);
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn g() {}\n".repeat(100));
        let justified = format!("{EXCEPTION}one table.\n{}", "x\n".repeat(LINES_MAX + 1));
        let over = "x\n".repeat(LINES_MAX + 1);
        let files = [("a/src/a.rs", &*with_tests), ("a/src/table.rs", &justified), ("a/tests/b.rs", &over)];
        assert_eq!(check(&Tree::of(&files)), []);
    }
}
