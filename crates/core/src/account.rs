//! The account of an e-mail address, for the login limits and the logs: the same for every spelling. The
//! IAM receives the address as the client sent it.

use std::sync::LazyLock;

use icu_collator::CollatorBorrowed;
use icu_collator::options::{AlternateHandling, CollatorOptions, MaxVariable, Strength};
use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// The collation of Unicode (UTS #10, in the root locale of CLDR) at its first level: without case,
/// accents and width. The collations of databases and directories are derived from it, so they equate
/// the same code points. About 3,400 equal an ASCII letter or digit; a table would have to list them.
/// Measured: 2.5 µs for an address, and 0.24 MB of the program, because only the root is linked,
/// without the tailorings of all languages (1.25 MB).
struct Collation {
    root: CollatorBorrowed<'static>,
    /// The sort key of an s.
    s: Vec<u8>,
}

static COLLATION: LazyLock<Collation> = LazyLock::new(|| {
    let mut options = CollatorOptions::default();
    options.strength = Some(Strength::Primary);
    // Spaces, punctuation and symbols are ignored. The older collations of Windows give most of them
    // no weight, and emoji none at all.
    options.alternate_handling = Some(AlternateHandling::Shifted);
    options.max_variable = Some(MaxVariable::Currency);
    let root = CollatorBorrowed::new_root(options);
    let mut s = Vec::new();
    let Ok(()) = root.write_sort_key_to("s", &mut s);
    Collation { root, s }
});

/// Ends the sort key of a part, which contains no byte as low as this.
const SEPARATOR: u8 = 1;

/// The same key for all spellings of an address that an IAM or its directory may treat as one
/// account: without case, accents, width, spaces, symbols and invisible characters. If an IAM
/// distinguishes two of them, their failures are counted together. That is better than a count for
/// each spelling, which multiplies the guesses.
///
/// Addresses differ by letters, digits, the `@`, dots, and the other characters of a local part
/// without quotes (RFC 5322 section 3.2.3).
pub(crate) fn canonical(email: &str) -> Vec<u8> {
    let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
    let mut key = Vec::new();
    let mut part = String::new();
    let mut encoded = [0; 4];
    for letter in email.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii() {
            push(letter, &mut part, &mut key);
            continue;
        }
        let decomposed = nfkd.normalize(letter.encode_utf8(&mut encoded));
        let letters = decomposed.chars().flat_map(char::to_lowercase);
        let letters = letters.filter(|letter| !is_ignored(*letter));
        // `(a)`, `a/c`, a number with a full stop: collations find no punctuation in those.
        let is_alone = letters.clone().nth(1).is_none();
        letters
            .filter(|letter| is_alone || !is_separator(*letter))
            .for_each(|letter| push(letter, &mut part, &mut key));
    }
    end(&mut part, &mut key);
    // ß equals ss in most collations, and s in one of MySQL's (utf8mb4_general_ci).
    if let [s] = COLLATION.s[..] {
        key.dedup_by(|next, last| *next == s && *last == s);
    }
    key
}

/// A domain without what normalisation removes or maps (RFC 5895, RFC 4518 section 2.2): case, width,
/// spaces, invisible characters and dots at its ends. Accents stay: they make another domain.
pub(crate) fn normalized_domain(domain: &str) -> String {
    let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
    let letters = nfkd.normalize(domain).to_lowercase();
    let letters = letters.chars().filter(|letter| !letter.is_whitespace());
    let letters = letters.filter(|letter| !is_invisible(*letter));
    let domain: String = letters
        .map(|letter| if letter == '\u{3002}' { '.' } else { letter })
        .collect();
    domain.trim_matches('.').to_owned()
}

/// Adds a letter to the part, or ends the part.
fn push(letter: char, part: &mut String, key: &mut Vec<u8>) {
    match letter {
        // The full stop of Chinese and Japanese is a dot in a domain (UTS #46 section 4).
        '\u{3002}' => push('.', part, key),
        _ if is_separator(letter) => {
            end(part, key);
            key.extend([SEPARATOR, u8::try_from(letter).unwrap_or_default()]);
        }
        // Collations of Windows (SQL Server, Active Directory) equate these. ı equals i where
        // addresses are compared in upper case.
        'þ' => part.push_str("th"),
        'ŋ' => part.push('n'),
        'ŧ' => part.push('t'),
        'ı' => part.push('i'),
        _ => part.push(letter),
    }
}

fn end(part: &mut String, key: &mut Vec<u8>) {
    let Ok(()) = COLLATION.root.write_sort_key_to(part, key);
    part.clear();
}

const fn is_separator(letter: char) -> bool {
    matches!(
        letter,
        '!' | '#'..='\'' | '*' | '+' | '-'..='/' | '=' | '?' | '@' | '^'..='`' | '{'..='~'
    )
}

/// Directories map U+1806 and U+FFFC to nothing too (RFC 4518 section 2.2).
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{1806}' | '\u{fffc}')
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter)
}

/// Invisible characters, marks that only change the letter before them, and characters that an older
/// Unicode does not have: collations of Windows give those no weight.
fn is_ignored(letter: char) -> bool {
    if letter.is_ascii() {
        return false;
    }
    is_invisible(letter)
        || match CodePointMapData::<GeneralCategory>::new().get(letter) {
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark => {
                !is_combining_letter(letter)
            }
            GeneralCategory::Unassigned | GeneralCategory::PrivateUse => true,
            _ => false,
        }
}

/// Letters that are written above others in medieval manuscripts. They are marks, but collations
/// treat them as letters.
const fn is_combining_letter(letter: char) -> bool {
    matches!(
        letter,
        '\u{363}'..='\u{36f}'
            | '\u{1abf}'
            | '\u{1acc}'..='\u{1ace}'
            | '\u{1dca}'
            | '\u{1dd2}'..='\u{1df4}'
            | '\u{2de0}'..='\u{2dff}'
            | '\u{a674}'..='\u{a67b}'
            | '\u{a69e}'..='\u{a69f}'
            | '\u{1e000}'..='\u{1e02a}'
            | '\u{1e08f}'
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use icu_properties::props::WhiteSpace;

    use super::*;

    const ALICE: &str = "alice@example.test";

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
            "alice@example。test",
            "al\u{ad}ice@example.test",
            "al\u{200d}ice@example.test",
            "\u{202e}alice@example.test",
            "\u{feff}alice@example.test",
            "álice@example.test",
            "a\u{301}lice@example.test",
            "𝒶𝓁𝒾𝒸ℯ@example.test",
            "alıce@example.test",
            "ALİCE@example.test",
            "ałice@example.ŧest",
            "🅰lice@example.test",
            "⒜lice@example.test",
            "alice🙂@example.test",
            // Without a character, and for private use.
            "al\u{378}ice@example.test",
            "al\u{e000}ice@example.test",
        ] {
            assert_eq!(canonical(spelling), canonical(ALICE), "{spelling:?}");
        }
        for (one, other) in [
            ("\u{e9}@x", "e\u{301}@x"),
            ("\u{439}@x", "\u{438}\u{306}@x"),
            ("STRASSE@x", "straße@x"),
            ("STRASE@x", "straße@x"),
            ("straẞe@x", "straße@x"),
            ("ὈΔΥΣΣΕΎΣ@x", "οδυσσευσ@x"),
            ("ﬁsh@x", "FISH@x"),
            ("K@x", "\u{212a}@x"),
            ("søren@x", "soren@x"),
            ("æsop@x", "aesop@x"),
            ("œuvre@x", "oeuvre@x"),
            ("đorđe@x", "dorde@x"),
            ("þorður@x", "thordur@x"),
            ("ħal@x", "hal@x"),
            ("ŋo@x", "no@x"),
            ("user٣@x", "user3@x"),
            ("ありす@x", "アリス@x"),
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
            "alice-@example.test",
            "a.lice@example.test",
            "alice@xn--exmple-cua.test",
            "alicia@example.test",
        ] {
            assert_ne!(canonical(other), canonical(ALICE), "{other}");
        }
        // Where a part ends is in the key, whatever the bytes of the letters are.
        let ascii: Vec<_> = ('!'..='~').map(|c| canonical(&format!("a{c}b"))).collect();
        let different = ascii.iter().collect::<std::collections::HashSet<_>>().len();
        let signs = ('!'..='~').filter(|sign| is_separator(*sign)).count();
        // Addresses that only such characters distinguish share one.
        assert_eq!(different, 26 + 10 + signs + 1);
    }

    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    fn is_invisible(letter: char) -> bool {
        matches!(letter, '\u{1806}' | '\u{2800}' | '\u{fffc}')
            || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter)
            || CodePointSetData::new::<WhiteSpace>().contains(letter)
            || matches!(
                CodePointMapData::<GeneralCategory>::new().get(letter),
                GeneralCategory::Control | GeneralCategory::Format
            )
    }

    #[test]
    fn no_invisible_code_point_anywhere_in_an_address_makes_another_account() {
        let account = canonical(ALICE);
        let mut invisible = 0;
        for letter in all().filter(|letter| is_invisible(*letter)) {
            invisible += 1;
            for at in [0, 3, 5, ALICE.len()] {
                let mut spelling = ALICE.to_owned();
                spelling.insert(at, letter);
                assert_eq!(canonical(&spelling), account, "{spelling:?}");
            }
            let everywhere = ALICE.chars().flat_map(|visible| [letter, visible]);
            let everywhere: String = everywhere.collect();
            assert_eq!(canonical(&everywhere), account, "{everywhere:?}");
        }
        assert!(invisible > 4_000, "{invisible}");
    }

    /// At the first level alone, with nothing left out: what `utf8mb4_0900_ai_ci` of `MySQL` and
    /// the ICU collations of `PostgreSQL` compare.
    fn database() -> CollatorBorrowed<'static> {
        let mut options = CollatorOptions::default();
        options.strength = Some(Strength::Primary);
        CollatorBorrowed::new_root(options)
    }

    #[test]
    fn characters_that_databases_equate_with_ascii_are_counted_as_ascii() {
        let database = database();
        let sort_key = |text: &str| {
            let mut key = Vec::new();
            let Ok(()) = database.write_sort_key_to(text, &mut key);
            key
        };
        let mut ascii = HashMap::new();
        let letters = || ('a'..='z').map(String::from);
        let digits = ('0'..='9').map(String::from);
        let pairs = letters().flat_map(|one| letters().map(move |two| one.clone() + &two));
        let pairs: Vec<_> = pairs.collect();
        let triples = pairs
            .iter()
            .flat_map(|two| letters().map(move |one| two.clone() + &one));
        for text in digits.chain(letters()).chain(pairs.clone()).chain(triples) {
            ascii.insert(sort_key(&text), text);
        }
        let mut equated = 0;
        for letter in all() {
            let letter = letter.to_string();
            let key = sort_key(&letter);
            if let Some(text) = ascii.get(&key) {
                equated += 1;
                assert_eq!(canonical(&letter), canonical(text), "{letter} {text}");
            }
            // Nothing, to the database.
            if key.is_empty() {
                assert_eq!(canonical(&letter), canonical(""), "{letter:?}");
            }
        }
        assert!(equated > 3_000, "{equated}");
    }

    #[test]
    fn neither_case_nor_a_unicode_normal_form_makes_another_account() {
        let plain = DecomposingNormalizerBorrowed::new_nfd();
        let compatibility = DecomposingNormalizerBorrowed::new_nfkd();
        for letter in all() {
            let text = letter.to_string();
            let decomposed = plain.normalize(&text);
            let compatible = compatibility.normalize(&text);
            let mut variants = vec![decomposed.to_string(), text.to_lowercase()];
            // The iota below a vowel, which has become a letter of its own in capitals.
            if !decomposed.contains('\u{345}') {
                variants.push(text.to_uppercase());
            }
            if !compatible.chars().any(is_separator) {
                variants.push(compatible.to_string());
            }
            // Most letters have no others.
            variants.retain(|variant| *variant != text);
            for variant in variants {
                assert_eq!(canonical(&variant), canonical(&text), "{letter:?}");
            }
        }
    }
}
