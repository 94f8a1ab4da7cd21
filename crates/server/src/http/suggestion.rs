//! What somebody may have meant: the known word with the fewest slips of the pen.

/// The known word nearest to this one, if any is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is very long is no slip, and would take long to compare.
    if word.len() > 64 {
        return None;
    }
    let slips = known.into_iter().map(|known| (slips(word, known), known));
    let (slips, known) = slips.min_by_key(|(slips, _)| *slips)?;
    // Half of it misspelt is another word.
    (slips <= known.len().div_ceil(2)).then_some(known)
}

/// Letters to add, drop or replace to make one word of another.
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut here = vec![row + 1];
        for (column, wanted) in other.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != *wanted);
            here.push(replaced.min(above[column + 1] + 1).min(here[column] + 1));
        }
        above = here;
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let known = ["delta", "id", "min", "max", "column"];
        assert_eq!(nearest("detla", known), Some("delta"));
        assert_eq!(nearest("colum", known), Some("column"));
        assert_eq!(nearest("Delta", known), Some("delta"));
        assert_eq!(nearest("quantity_of_things", known), None);
        assert_eq!(nearest(&"x".repeat(1000), known), None);
    }
}
