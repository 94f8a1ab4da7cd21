//! Repository rules that the compiler does not check.
//!
//! A rule is a file here: a function from the [`Tree`] to its violations, and a test with planted violations.
//! To add a rule, write the file and list it in [`RULES`]. The rules run as `cargo xtask tidy` and, by the
//! test at the end of this file, in every `cargo test --workspace`.

mod code;
mod headers;
mod layers;
mod leftovers;
mod length;
mod links;
mod machine_paths;
mod purity;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

pub use self::layers::write_map;
use self::tree::Tree;

/// Finds the violations of one rule.
type Rule = fn(&Tree) -> Vec<Violation>;

/// All rules, in the order of their reports.
const RULES: &[Rule] = &[
    layers::check,
    length::check,
    purity::check,
    leftovers::check,
    headers::check,
    machine_paths::check,
    links::check,
    words::check,
];

/// A violation of a rule, with the reason and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Violation {
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
    why: &'static str,
    fix: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, why, fix } = self;
        write!(f, "{path}:{line}: {what}\n    why: {why}\n    fix: {fix}")
    }
}

/// Checks the repository at `root`; the error lists every violation.
pub fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let violations = check(&tree);
    if violations.is_empty() {
        eprintln!("tidy: {} files keep {} rules", tree.len(), RULES.len());
        return Ok(());
    }
    let report: Vec<String> = violations.iter().map(ToString::to_string).collect();
    bail!("tidy: {} violations\n\n{}", violations.len(), report.join("\n\n"))
}

fn check(tree: &Tree) -> Vec<Violation> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        if let Err(error) = run(&crate::process::root()) {
            panic!("{error}");
        }
    }

    #[test]
    fn a_violation_is_printed_with_place_reason_and_fix() {
        let tree = Tree::of(&[("crates/filter/src/lib.rs", "//! A filter.\n\nuse std::fs;\n")]);
        let violations = check(&tree);
        assert_eq!(violations.len(), 1, "{violations:?}");
        let text = violations[0].to_string();
        assert!(text.starts_with("crates/filter/src/lib.rs:3: "), "{text}");
        assert!(text.contains("\n    why: ") && text.contains("\n    fix: "), "{text}");
    }
}
