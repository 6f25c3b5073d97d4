//! One account under all its names, for counting and for the log. What the IAM is sent is never
//! touched by this.

use std::fmt;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

/// What stands for an account in the log: the same for all spellings of its address, another in
/// each process, and no way back to the address without that process' key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account(u64);

impl Account {
    pub(super) const fn new(hash: u64) -> Self {
        Self(hash)
    }

    pub(super) const fn hash(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What spellings of an address have in common that an IAM or its directory may take for one
/// account: without case, accents, width, spaces, and what cannot be seen (compare RFC 4518
/// section 2). An IAM that tells two of them apart has their failures counted as one account's,
/// which is the lesser evil: a spelling that gets a count of its own multiplies the guesses.
pub(super) fn canonical(email: &str) -> String {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let decomposed = DecomposingNormalizerBorrowed::new_nfkd().normalize(email);
    // Up, then down: some letters have several small forms of one capital.
    let letters = decomposed.chars().flat_map(char::to_uppercase);
    let kept = letters.flat_map(char::to_lowercase).filter(|letter| {
        !letter.is_whitespace()
            && !matches!(
                categories.get(*letter),
                GeneralCategory::NonspacingMark
                    | GeneralCategory::EnclosingMark
                    | GeneralCategory::Format
                    | GeneralCategory::Control
            )
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::canonical;

    #[test]
    fn every_spelling_of_an_address_is_one_account() {
        for spelling in [
            "alice@example.test",
            "Alice@example.test",
            "alice@EXAMPLE.TEST",
            "ALICE@EXAMPLE.TEST",
            " alice@example.test",
            "alice@example.test ",
            "alice@example.test\u{a0}",
            "alice @example.test",
            "ａｌｉｃｅ＠ｅｘａｍｐｌｅ．ｔｅｓｔ",
            "al\u{ad}ice@example.test",
            "al\u{200d}ice@example.test",
            "\u{202e}alice@example.test",
            "\u{feff}alice@example.test",
            "álice@example.test",
            "a\u{301}lice@example.test",
            "𝒶𝓁𝒾𝒸ℯ@example.test",
            "alıce@example.test",
            "ALİCE@example.test",
        ] {
            assert_eq!(canonical(spelling), "alice@example.test", "{spelling:?}");
        }
        for (one, other) in [
            ("\u{e9}@x", "e\u{301}@x"),
            ("STRASSE@x", "straße@x"),
            ("ὈΔΥΣΣΕΎΣ@x", "οδυσσευσ@x"),
            ("ﬁsh@x", "FISH@x"),
            ("K@x", "\u{212a}@x"),
        ] {
            assert_eq!(canonical(one), canonical(other), "{one} {other}");
        }
    }

    #[test]
    fn letters_that_only_look_alike_and_other_addresses_are_other_accounts() {
        // Cyrillic а, Greek ο, another domain, a tag, the ASCII form of a domain.
        for other in [
            "\u{430}lice@example.test",
            "alice@example.t\u{3bf}st",
            "alice@example.org",
            "alice+1@example.test",
            "a.lice@example.test",
            "alice@xn--exmple-cua.test",
        ] {
            assert_ne!(canonical(other), "alice@example.test", "{other}");
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_its_own(email in "\\PC{0,40}|.{0,40}") {
            let once = canonical(&email);
            prop_assert_eq!(canonical(&once), once);
        }
    }
}
