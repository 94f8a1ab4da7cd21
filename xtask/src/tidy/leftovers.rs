//! Rejects placeholders, debugging output and ignored tests.

use super::Violation;
use super::code::Code;
use super::tree::Tree;

const WHY: &str = "a placeholder panics at run time, and an ignored test checks nothing";

const LEFTOVERS: &[(&str, &str)] = &[
    ("todo!", "write the code, or remove the path to it"),
    ("unimplemented!", "write the code, or return an error that says what is not supported"),
    ("dbg!", "remove it"),
    ("#[ignore", "make the test pass, or delete it and state the reason in the commit"),
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    // Parsing every file would be slow.
    let is_suspect = |text: &str| LEFTOVERS.iter().any(|(pattern, _)| text.contains(pattern));
    for (path, text) in tree.texts(".rs").filter(|(_, text)| is_suspect(text)) {
        let code = Code::with_tests(text);
        for (pattern, fix) in LEFTOVERS {
            violations.extend(code.lines(pattern).into_iter().map(|line| Violation {
                path: path.into(),
                line,
                what: format!("`{pattern}` in the code"),
                why: WHY,
                fix: (*fix).into(),
            }));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leftover_is_found_where_it_is() {
        for (leftover, line) in [
            ("fn f() {\n    todo!()\n}", 2),
            ("fn f() {\n\n    unimplemented!(\"later\")\n}", 3),
            ("fn f() { dbg!(1); }", 1),
            ("#[test]\n#[ignore = \"slow\"]\nfn f() {}", 2),
            ("#[ignore]\n#[test]\nfn f() {}", 1),
        ] {
            let violations = check(&Tree::of(&[("crates/a/tests/b.rs", leftover)]));
            assert_eq!(violations.len(), 1, "{leftover}");
            assert_eq!(violations[0].line, line, "{leftover}");
        }
    }

    #[test]
    fn comments_and_strings_are_not_leftovers() {
        let text = "//! No todo!() here.\nfn f() { g(\"dbg!(1)\"); my_todo!(); /* #[ignore] */ }\n\
                    #[cfg_attr(miri, ignore)]\nfn h() {}\n";
        assert_eq!(check(&Tree::of(&[("a.rs", text)])), []);
    }
}
