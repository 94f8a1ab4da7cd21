//! Rejects dead relative links in Markdown pages.

use super::Violation;
use super::tree::Tree;

const WHY: &str = "a dead link makes a page useless";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts(".md") {
        for (index, line) in prose(text) {
            for target in targets(&line) {
                let what = match resolve(path, target) {
                    Some(place) if tree.has(&place) => continue,
                    Some(place) => format!("the link `{target}` points to `{place}`, which does not exist"),
                    None => format!("the link `{target}` points out of the repository"),
                };
                violations.push(Violation {
                    path: path.into(),
                    line: index + 1,
                    what,
                    why: WHY,
                    fix: "correct it, or write the full address of another site".into(),
                });
            }
        }
    }
    violations
}

/// The lines that are not in a fenced block, each with its index and without its inline code.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => Some((index, without_inline_code(line))),
            (None, Some(_)) => {
                fence = mark;
                None
            }
            (Some(open), _) => {
                if mark == Some(open) {
                    fence = None;
                }
                None
            }
        }
    })
}

/// Removes the text between two backticks. A single one is an ordinary character.
fn without_inline_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let mut out = String::new();
    for (index, part) in parts.iter().enumerate() {
        let is_code = index % 2 == 1 && index + 1 < parts.len();
        out.push_str(if is_code { " " } else { part });
    }
    out
}

/// The relative targets of a line: of `[text](target)`, `![text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let reference = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    // `[^1]: text` is a footnote.
    let reference = reference.filter(|(name, _)| !name.starts_with('^') && !name.contains(']'));
    inline.chain(reference.map(|(_, target)| target)).filter_map(relative).collect()
}

/// A target without title, angle brackets and fragment. `None` for an address and a place in the same page.
fn relative(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?;
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let is_address =
        path.starts_with("//") || path.split('/').next().is_some_and(|first| first.contains(':'));
    (!path.is_empty() && !is_address).then_some(path)
}

/// The path of a target from the root. `None` if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => page.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let files = [("README.md", ""), ("docs/page.md", text), ("docs/next.md", ""), ("docs/img/a.svg", "")];
        check(&Tree::of(&files)).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_dead_link_is_found_where_it_is() {
        for link in [
            "[a](missing.md)",
            "![a](img/missing.svg \"title\")",
            "[a](next.md) and [b](README.md)",
            "[name]: missing.md",
            "[a](../../README.md)",
            "[a](/docs/missing.md#part)",
            "a ` lone tick [a](missing.md)",
        ] {
            assert_eq!(found(&format!("first\n\n{link}\n")), [3], "{link}");
        }
        assert_eq!(found("```\ncode\n```\n[a](missing.md)\n"), [4], "after a fenced block");
    }

    #[test]
    fn live_links_addresses_and_examples_are_fine() {
        for link in [
            "[a](next.md) [b](../README.md#part) ![c](img/a.svg) [d](img/) [e](.) [f](..)",
            "[a](https://example.org/x.md) <https://example.org> [b](mailto:a@example.org) [c](#part)",
            "[name]: next.md \"title\"",
            "[^1]: a footnote",
            "[a](/docs/next.md)",
            "`[a](missing.md)`",
            "```\n[a](missing.md)\n```",
            "~~~md\n```\n[a](missing.md)\n~~~",
        ] {
            assert!(found(link).is_empty(), "{link}");
        }
    }
}
