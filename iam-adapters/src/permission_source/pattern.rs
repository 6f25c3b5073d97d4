//! Patterns of the names of groups.

/// A text with wildcards, each of which stands for any text without the separator.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// What is between the wildcards.
    texts: Vec<String>,
    separator: Option<char>,
}

impl Pattern {
    /// Characters, and `None` for each wildcard.
    pub(super) fn new(
        characters: impl Iterator<Item = Option<char>>,
        separator: Option<char>,
    ) -> Self {
        let mut texts = vec![String::new()];
        for character in characters {
            match (character, texts.last_mut()) {
                (Some(character), Some(last)) => last.push(character),
                _ => texts.push(String::new()),
            }
        }
        Self { texts, separator }
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.texts[..] else {
            return self.texts.first().is_some_and(|only| only == text);
        };
        let has_separator = |text: &str| self.separator.is_some_and(|c| text.contains(c));
        let Some(rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else {
            return false;
        };
        for part in middle {
            let Some((skipped, after)) = rest.split_once(part.as_str()) else {
                return false;
            };
            if has_separator(skipped) {
                return false;
            }
            rest = after;
        }
        !has_separator(rest)
    }
}
