//! The known word that somebody probably meant.

/// The nearest of the known words, unless none is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|other| (distance(word, other), other)).min_by_key(|(far, _)| *far);
    let (far, other) = near?;
    // Half of the letters wrong is another word.
    (far * 2 <= word.chars().count().max(2)).then_some(other)
}

/// Letters to change, add or leave out to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, wanted) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *wanted);
            diagonal = row[place + 1];
            row[place + 1] = change.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
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
