//! The nearest valid choice to what somebody typed.

/// The candidate with the smallest edit distance to `given`; `None` when there is no candidate.
#[must_use]
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .min_by_key(|candidate| edit_distance(given, candidate))
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_closest_name() {
        let names = ["hemem", "notier", "all-fast", "all-slow"];
        assert_eq!(nearest("hemm", names), Some("hemem"));
        assert_eq!(nearest("all_fast", names), Some("all-fast"));
        assert_eq!(nearest("x", []), None);
    }
}
