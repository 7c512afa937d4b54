//! Counts with their nouns, for messages.

/// Formats a count and its noun: `1 batch`, `2 batches`, `0 jobs`.
pub fn plural(count: u64, noun: &str) -> String {
    let ending = match (count, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        let formatted =
            [(0, "job"), (1, "job"), (2, "job"), (1, "batch"), (3, "batch")].map(|(n, noun)| plural(n, noun));
        assert_eq!(formatted, ["0 jobs", "1 job", "2 jobs", "1 batch", "3 batches"]);
    }
}
