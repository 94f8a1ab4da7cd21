//! No source file is longer than a reader can hold in the head.

use super::Violation;
use super::tree::Tree;

const LINES_MAX: usize = 800;

const WHY: &str = "a file is one idea; a long one hides several, and nobody reviews it whole";

pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.texts(".rs")
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|&(_, lines)| lines > LINES_MAX)
        .map(|(path, lines)| Violation {
            path: path.into(),
            line: LINES_MAX + 1,
            what: format!("{lines} lines, the limit is {LINES_MAX}"),
            why: WHY,
            fix: "move one of its ideas into a file named after it".into(),
        })
        .collect()
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
}
