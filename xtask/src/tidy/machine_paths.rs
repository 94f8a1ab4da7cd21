//! No file contains a path of a particular machine.

use super::Violation;
use super::tree::Tree;

const WHY: &str = "a path of one machine is wrong on every other, and reveals details of its owner";

/// The first part of such paths, without slashes, because the rule also checks this file.
const FOLDERS: &[&str] = &["work", "root", "home", "Users"];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts("") {
        for (index, line) in text.lines().enumerate() {
            violations.extend(FOLDERS.iter().filter(|folder| names(line, folder)).map(|folder| Violation {
                path: path.into(),
                line: index + 1,
                what: format!("an absolute path into `{folder}`"),
                why: WHY,
                fix: "write it relative to the root of the repository, or take it from an argument".into(),
            }));
        }
    }
    violations
}

/// Whether a path in the line begins with `/folder/`. `a/folder/` and `https://a.b/folder/` do not.
fn names(line: &str, folder: &str) -> bool {
    let pattern = format!("/{folder}/");
    line.match_indices(&pattern).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-~*})$%".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_machine_is_found_in_any_text_file() {
        for folder in ["work", "root", "home", "Users"] {
            for line in ["see /F/me/x", "/F/x", "\"/F/x\"", "file:///F/x", "PATH=/F/x", "a:/F/x"] {
                let text = format!("first\n{}\n", line.replace('F', folder));
                let violations = check(&Tree::of(&[("notes.txt", &text)]));
                assert_eq!(violations.len(), 1, "{text}");
                assert_eq!(violations[0].line, 2, "{text}");
            }
        }
    }

    #[test]
    fn relative_paths_and_addresses_are_fine() {
        for line in ["a/F/b", "../F/b", "https://example.org/F/b", "${DIR}/F/b", "~/F/b", "/F", "/Fs/b"] {
            for folder in FOLDERS {
                let text = line.replace('F', folder);
                assert_eq!(check(&Tree::of(&[("notes.txt", &text)])), [], "{text}");
            }
        }
    }
}
