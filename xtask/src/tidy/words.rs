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

/// Directories and files whose text was written before the glossary and is not converted yet. An entry without a retired
/// word is reported, so this list only shrinks.
const PENDING: &[&str] = &[
    "clients/python/src/",
    "clients/python/tests/",
    "crates/engine/Cargo.toml",
    "crates/engine/benches/",
    "crates/engine/src/",
    "crates/engine/tests/",
    "crates/register-postgres/src/",
    "crates/register-postgres/tests/",
    "crates/register-raft/src/",
    "crates/register-raft/tests/",
    "research/src/bin/",
    "research/src/clock_estimate/",
    "research/src/clocks.rs",
    "research/src/clocks/",
    "research/src/fig08.rs",
    "research/src/fig09.rs",
    "research/src/fig10.rs",
    "research/src/fig11.rs",
    "research/src/fig12.rs",
    "research/src/fig13.rs",
    "research/src/lib.rs",
    "research/src/measure.rs",
    "research/src/outcome.rs",
    "research/src/report.rs",
    "research/src/surge.rs",
    "research/src/transactions/",
    "research/tests/clock_estimate.rs",
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let texts = [".rs", ".md", ".py", ".toml", ".sh"].into_iter().flat_map(|ending| tree.texts(ending));
    let mut violations = Vec::new();
    let mut used = [false; PENDING.len()];
    for (path, text) in texts.filter(|(path, _)| *path != GLOSSARY && *path != RULE) {
        let pending = PENDING.iter().position(|pending| path.starts_with(pending));
        let normal = text.to_ascii_lowercase().replace('_', " ");
        for (word, instead) in RETIRED {
            if let Some(pending) = pending {
                used[pending] |= whole_words(&normal, word).next().is_some();
                continue;
            }
            violations.extend(whole_words(&normal, word).map(|at| Violation {
                path: path.into(),
                line: line(text, at),
                what: format!("`{word}` is a retired word"),
                why: WHY,
                fix: format!("write {instead}; see {GLOSSARY}"),
            }));
        }
    }
    let is_whole = tree.texts(RULE).next().is_some();
    for (pending, _) in PENDING.iter().zip(used).filter(|(_, used)| is_whole && !used) {
        violations.push(Violation {
            path: RULE.into(),
            line: 1,
            what: format!("`{pending}` has no retired words any more"),
            why: WHY,
            fix: "remove it from PENDING".into(),
        });
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
