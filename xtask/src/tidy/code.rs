//! Rust source as tokens with their lines: without comments, and without the items of test builds on request.
//!
//! A grouped `use` becomes one full path for each of its names: `use std::{fs, io}` reads as `std::fs` and
//! `std::io`.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// A token. A literal is `"`.
struct Token {
    text: String,
    line: usize,
}

/// A source file.
#[derive(Default)]
pub struct Code {
    tokens: Vec<Token>,
    /// Modules in files of their own that only a test build has.
    pub test_modules: Vec<String>,
    /// Lines of the items that only a test build has.
    pub test_lines: usize,
    keeps_tests: bool,
}

impl Code {
    /// Reads all code of a file. A file that is not Rust has none.
    pub fn with_tests(text: &str) -> Self {
        Self { keeps_tests: true, ..Self::default() }.read(text)
    }

    /// Reads the code without `#[cfg(test)]`, and without `all(..)` with `test` in it.
    pub fn without_tests(text: &str) -> Self {
        Self::default().read(text)
    }

    fn read(mut self, text: &str) -> Self {
        let trees: Vec<TokenTree> = text.parse::<TokenStream>().into_iter().flatten().collect();
        if is_test_file(&trees) && !self.keeps_tests {
            self.test_lines = text.lines().count();
        } else {
            self.add(&trees);
        }
        self
    }

    /// The lines where `pattern` begins. Words match as a whole.
    pub fn lines(&self, pattern: &str) -> Vec<usize> {
        let words = words(pattern);
        let found = self.tokens.windows(words.len());
        let found = found.filter(|window| window.iter().map(|token| &token.text).eq(&words));
        found.map(|window| window[0].line).collect()
    }

    fn add(&mut self, mut trees: &[TokenTree]) {
        while let [first, rest @ ..] = trees {
            trees = if let Some(after) = after_test_item(trees).filter(|_| !self.keeps_tests) {
                let item = &trees[..trees.len() - after.len()];
                self.skip(item);
                after
            } else if is_word(first, "use")
                && let Some(end) = rest.iter().position(|tree| is_mark(tree, ';'))
            {
                self.add_use(&[], &rest[..end]);
                &rest[end..]
            } else {
                self.add_tree(first);
                rest
            };
        }
    }

    fn add_tree(&mut self, tree: &TokenTree) {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.push(open, group.span_open());
                self.add(&group.stream().into_iter().collect::<Vec<_>>());
                self.push(close, group.span_close());
            }
            TokenTree::Literal(literal) => self.push("\"", literal.span()),
            other => self.push(&other.to_string(), other.span()),
        }
    }

    /// Adds the paths of a `use`. They have the lines of their last parts.
    fn add_use(&mut self, prefix: &[TokenTree], tree: &[TokenTree]) {
        let path = [prefix, tree].concat();
        let Some((TokenTree::Group(group), prefix)) = path.split_last() else {
            let line = tree.first().map(|tree| tree.span().start().line);
            let first = self.tokens.len();
            path.iter().for_each(|tree| self.add_tree(tree));
            for token in &mut self.tokens[first..] {
                token.line = line.unwrap_or(token.line);
            }
            return;
        };
        let parts: Vec<TokenTree> = group.stream().into_iter().collect();
        parts.split(|tree| is_mark(tree, ',')).for_each(|part| self.add_use(prefix, part));
    }

    fn push(&mut self, text: &str, span: Span) {
        self.tokens.push(Token { text: text.to_owned(), line: span.start().line });
    }

    fn skip(&mut self, item: &[TokenTree]) {
        if let [first, .., last] = item {
            self.test_lines += last.span().end().line - first.span().start().line + 1;
        }
        if let [.., keyword, TokenTree::Ident(name), end] = item
            && is_word(keyword, "mod")
            && is_mark(end, ';')
        {
            self.test_modules.push(name.to_string());
        }
    }
}

/// The line of a byte position, counted from 1.
pub fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// The tokens of a pattern: words and single characters.
fn words(pattern: &str) -> Vec<String> {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut words: Vec<String> = Vec::new();
    for c in pattern.chars() {
        match words.last_mut().filter(|last| is_word(c) && last.chars().all(is_word)) {
            Some(last) => last.push(c),
            None => words.push(c.into()),
        }
    }
    words
}

fn is_word(tree: &TokenTree, word: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == word)
}

fn is_mark(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether the file has an attribute `#![cfg(test)]`.
fn is_test_file(trees: &[TokenTree]) -> bool {
    trees
        .windows(3)
        .any(|window| is_mark(&window[0], '#') && is_mark(&window[1], '!') && is_test_attribute(&window[2]))
}

/// What follows an item of a test build with which `trees` begins. `None` if it begins with anything else:
/// the end of a field, a match arm or a statement would be somewhere else.
fn after_test_item(trees: &[TokenTree]) -> Option<&[TokenTree]> {
    const FIRST_WORDS: &str =
        "async const enum extern fn impl macro_rules mod pub static struct trait type unsafe use";
    let [mark, attribute, rest @ ..] = trees else { return None };
    if !is_mark(mark, '#') || !is_test_attribute(attribute) {
        return None;
    }
    let mut item = rest;
    while let [mark, TokenTree::Group(_), rest @ ..] = item
        && is_mark(mark, '#')
    {
        item = rest;
    }
    let is_item = item.first().is_some_and(|tree| FIRST_WORDS.split(' ').any(|word| is_word(tree, word)));
    let is_end = |tree: &TokenTree| {
        is_mark(tree, ';') || matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let end = item.iter().position(is_end).map_or(item.len(), |end| end + 1);
    is_item.then(|| &item[end..])
}

/// Whether this is `[cfg(..)]` with a predicate that only a test build meets.
fn is_test_attribute(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    match &group.stream().into_iter().collect::<Vec<_>>()[..] {
        [cfg, TokenTree::Group(predicate)] if is_word(cfg, "cfg") => {
            is_test_only(&predicate.stream().into_iter().collect::<Vec<_>>())
        }
        _ => false,
    }
}

fn is_test_only(predicate: &[TokenTree]) -> bool {
    match predicate {
        [word] => is_word(word, "test"),
        [all, TokenTree::Group(parts)] if is_word(all, "all") => {
            let parts: Vec<TokenTree> = parts.stream().into_iter().collect();
            parts.split(|tree| is_mark(tree, ',')).any(is_test_only)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(code: &Code) -> String {
        code.tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        for source in ["a // x\n", "/// x\na", "a /* x /* x */ x */", "a; \"x\"", "a; r#\"x\"x\"#", "a; 'x'"]
        {
            let code = Code::with_tests(source);
            assert_eq!((code.lines("a").len(), code.lines("x").len()), (1, 0), "{source}");
        }
    }

    #[test]
    fn test_items_are_left_out() {
        for (source, kept) in [
            ("#[cfg(test)] #[allow(x)] mod tests { fn b() { c() } } fn d() {}", "fn d ( ) { }"),
            ("#[cfg(all(test, not(loom)))] mod t { x }", ""),
            ("#[cfg(test)] fn f(a: [u8; 2]) { g(); } h", "h"),
            ("mod m { #[cfg(test)] use x; }", "mod m { }"),
            ("#![cfg(test)]\nfn f() {}", ""),
            ("#[cfg(not(test))] mod m {}", "# [ cfg ( not ( test ) ) ] mod m { }"),
            ("#[cfg(any(test, loom))] mod m {}", "# [ cfg ( any ( test , loom ) ) ] mod m { }"),
        ] {
            assert_eq!(text(&Code::without_tests(source)), kept, "{source}");
        }
        let source =
            "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub(crate) mod c;\n#[cfg(test)]\nmod d {}\n";
        let code = Code::without_tests(source);
        assert_eq!((&code.test_modules[..], code.test_lines), (&["b".to_owned(), "c".to_owned()][..], 6));
    }

    #[test]
    fn a_pattern_is_found_as_a_whole_word() {
        for (source, pattern, lines) in [
            ("rand::x\noperand::y", "rand::", &[1][..]),
            ("std::fs;\nstd::fs_x", "std::fs", &[1]),
            ("\nstd::rand::x", "rand::", &[2]),
            (
                "use std::{\n    fmt,\n    thread::{\n        self,\n        spawn,\n    },\n};",
                "thread::spawn",
                &[5],
            ),
            ("use {\n    a::b,\n    rand::Rng,\n};", "rand::", &[3]),
            ("use std::{fmt, fs, io::{self, Read}};", "std::fs", &[1]),
        ] {
            assert_eq!(Code::with_tests(source).lines(pattern), lines, "{source}");
        }
    }
}
