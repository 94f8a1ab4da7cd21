//! Suggestions for misspelt names.

/// The known name with the smallest edit distance, if at most half of its letters differ.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The time of a comparison is the product of the lengths, and a long name is not a misspelt one.
    if name.len() > 64 {
        return None;
    }
    let distances = known.into_iter().map(|known| (strsim::levenshtein(name, known), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= known.len().div_ceil(2)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_distant_ones_are_not() {
        let known = ["delta", "id", "min", "max", "column"];
        assert_eq!(nearest("detla", known), Some("delta"));
        assert_eq!(nearest("colum", known), Some("column"));
        assert_eq!(nearest("Delta", known), Some("delta"));
        assert_eq!(nearest("resp-tls", ["resp", "resp_tls"]), Some("resp_tls"));
        assert_eq!(nearest("quantity_of_things", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1000), known), None);
    }
}
