//! Suggestions for mistyped words.

/// The known word with the smallest edit distance, if at most half of the letters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|other| (strsim::levenshtein(word, other), other));
    let (distance, other) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance * 2 <= word.chars().count().max(2)).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_get_a_suggestion_other_words_none() {
        let known = ["data", "resp", "resp_tls", "tokens", "log_level"];
        for (word, near) in [
            ("date", Some("data")),
            ("resp-tls", Some("resp_tls")),
            ("token", Some("tokens")),
            ("loglevel", Some("log_level")),
            ("memory", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }
}
