//! Numbers of things, in the singular or the plural.

use std::fmt::Display;

/// `1 revision is`, `2 revisions are`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    let things = if number == N::from(1) { one } else { several };
    format!("{number} {things}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let full_copies = [0u64, 1, 2].map(|number| count(number, "full copy", "full copies"));
        assert_eq!(full_copies, ["0 full copies", "1 full copy", "2 full copies"]);
    }
}
