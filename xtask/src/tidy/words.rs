//! Rejects the retired words of the glossary.

use super::Violation;
use super::code::line;
use super::tree::Tree;

const WHY: &str =
    "one word has one meaning, and the standard term of the field is the one that readers search for";

/// The page that lists the retired words and their replacements.
const GLOSSARY: &str = "docs/glossary.md";

/// This file.
const RULE: &str = "xtask/src/tidy/words.rs";

/// Retired words, and the terms to use instead. Identifiers with `_` for a space are found too.
const RETIRED: &[(&str, &str)] = &[
    ("whoever", "name the role: the client, the caller, the operator"),
    ("somebody", "name the role: the client, the caller, the operator"),
    ("those who", "name the role: the client, the caller, the operator"),
    ("told", "returns, reports, responds"),
    ("tells", "returns, reports, responds"),
    ("chance", "random, rng, probability"),
    ("patience", "timeout, deadline"),
    ("so many", "`n`, at most `n`"),
    ("under way", "in flight"),
    ("at work", "running, executing"),
    ("became of", "result of, status of"),
    ("rests on", "depends on"),
    ("bring near", "prefetch"),
    ("brought near", "prefetched"),
    ("stands back", "yields, runs at low priority"),
    ("by turns", "interleaved, alternating"),
    ("let go", "drop, release, evict"),
    ("strangers", "untrusted, unauthenticated"),
    ("mend", "fix, repair"),
    ("mends", "fix, repair"),
    ("mended", "fix, repair"),
    ("for ever", "permanently, until shutdown"),
    ("keeper", "checkpointer, rotation"),
    ("errand", "task, effect"),
    ("deed", "fault"),
    ("hardship", "resource exhaustion"),
    ("in passing", "incrementally"),
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let texts = [".rs", ".md", ".py", ".toml", ".sh"].into_iter().flat_map(|ending| tree.texts(ending));
    let mut violations = Vec::new();
    for (path, text) in texts.filter(|(path, _)| *path != GLOSSARY && *path != RULE) {
        let normal = text.to_ascii_lowercase().replace('_', " ");
        for (word, instead) in RETIRED {
            violations.extend(whole_words(&normal, word).map(|at| Violation {
                path: path.into(),
                line: line(text, at),
                what: format!("`{word}` is a retired word"),
                why: WHY,
                fix: format!("write {instead}; see {GLOSSARY}"),
            }));
        }
    }
    violations
}

/// Byte positions of `word` in `text` that are not part of a longer word.
fn whole_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_word_is_found_with_its_line() {
        let text = "//! Fine.\nfn f() { let under_way = 1; }\n// Whoever calls.\n";
        let found: Vec<(usize, String)> =
            check(&Tree::of(&[("crates/a/src/b.rs", text)])).into_iter().map(|v| (v.line, v.what)).collect();
        assert_eq!(
            found,
            [
                (3, "`whoever` is a retired word".to_string()),
                (2, "`under way` is a retired word".to_string())
            ]
        );
    }

    #[test]
    fn longer_words_and_the_glossary_are_not_found() {
        let files = [("a.md", "amended, undeeded, mechance\n"), (GLOSSARY, "whoever\n")];
        assert_eq!(check(&Tree::of(&files)), []);
    }

    #[test]
    fn every_retired_word_is_in_the_glossary() {
        let glossary = include_str!("../../../docs/glossary.md");
        let listed =
            glossary.split("## Retired words").nth(1).expect("the glossary has a list of retired words");
        for (word, _) in RETIRED.iter().filter(|(word, _)| !word.starts_with("mend") && *word != "bring near")
        {
            assert!(listed.contains(word), "{word}");
        }
    }
}
