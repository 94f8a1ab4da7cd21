//! The first line of a source file states its purpose.

use super::Violation;
use super::tree::Tree;

const WHY: &str = "the first line of a file says whether it is the one that the reader looks for";

pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.texts(".rs")
        .filter(|(path, _)| path.split('/').rev().skip(1).any(|folder| folder == "src"))
        .filter(|(_, text)| {
            let first = text.lines().next().unwrap_or_default();
            // The README of a crate may be its documentation.
            !first.starts_with("#![doc = include_str!(")
                && first.strip_prefix("//!").is_none_or(|sentence| sentence.trim().is_empty())
        })
        .map(|(path, _)| Violation {
            path: path.into(),
            line: 1,
            what: "the file does not begin with a `//!` sentence".into(),
            why: WHY,
            fix: "begin it with `//! ` and the purpose of the file, followed by its invariants".into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_without_a_header_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/good.rs", "//! Good.\n"),
            ("crates/a/src/lib.rs", "#![doc = include_str!(\"../README.md\")]\n"),
            ("crates/a/src/deep/late.rs", "use b;\n//! Late.\n"),
            ("crates/a/src/mute.rs", "//!\n//! Mute.\n"),
            ("crates/a/src/empty.rs", ""),
            ("crates/a/tests/elsewhere.rs", "use b;\n"),
        ]);
        let paths: Vec<String> = check(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, ["crates/a/src/deep/late.rs", "crates/a/src/empty.rs", "crates/a/src/mute.rs"]);
    }
}
