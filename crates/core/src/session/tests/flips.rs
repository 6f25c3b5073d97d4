//! Tokens with small changes: a million, so that rare cases occur.

use std::thread;

use super::*;

/// Flips each bit of each character of a token and asserts that the result does not open. Returns the
/// number of flips. The eighth bit is left out, because the result would not be UTF-8.
fn count_refused_flips(keys: &KeySet<SealingKey>, token: &str) -> usize {
    let mut text = token.to_owned();
    let mut refused_flips = 0;
    for at in 0..token.len() {
        for bit in 0..7 {
            let was = token.as_bytes()[at];
            let is = char::from(was ^ 1 << bit);
            text.replace_range(at..=at, is.encode_utf8(&mut [0; 4]));
            let mut buffer = Zeroizing::default();
            assert!(open(keys, &text, &mut buffer).is_err(), "{at} {bit} {text}");
            refused_flips += 1;
            text.replace_range(at..=at, char::from(was).encode_utf8(&mut [0; 4]));
        }
    }
    refused_flips
}

#[test]
fn every_one_of_a_million_single_bit_flips_is_refused() {
    const FLIPS: usize = 1_000_000;
    let keys = key_set();
    let flip = |share: usize| {
        let mut refused_flips = 0;
        // Contents of every length, for every alignment of text and tag.
        for length in 0.. {
            if refused_flips >= FLIPS / 4 {
                break;
            }
            let secret = "s".repeat((length * 4 + share) % 256);
            refused_flips += count_refused_flips(&keys, &sealed_with(&keys, &session(&secret)));
        }
        refused_flips
    };
    let refused_flips: usize = thread::scope(|scope| {
        let shares: Vec<_> = (0..4)
            .map(|share| scope.spawn(move || flip(share)))
            .collect();
        shares.into_iter().map(|share| share.join().unwrap()).sum()
    });
    assert!(refused_flips >= FLIPS, "{refused_flips}");
}

#[test]
fn token_with_a_removed_or_added_character_is_refused() {
    let keys = key_set();
    for token in ["a", "ab", "abc"].map(sealed) {
        for at in 0..=token.len() {
            let (head, tail) = token.split_at(at);
            let mut changed = vec![format!("{head}A{tail}"), format!("{head}.{tail}")];
            if let Some(one) = tail.get(..1) {
                changed.extend([
                    head.to_owned(),
                    format!("{head}{}", &tail[1..]),
                    format!("{head}{one}{tail}"),
                ]);
            }
            if at > 0 {
                changed.push(tail.to_owned());
            }
            for wrong in changed {
                assert!(opened(&keys, &wrong).is_err(), "{at}: {wrong}");
            }
        }
    }
}

#[test]
fn token_combined_from_two_tokens_is_refused() {
    let keys = KeySet::new(vec![key("k1", 1, 0), key("k2", 2, 1)]).unwrap();
    let first = KeySet::new(vec![key("k1", 1, 0)]).unwrap();
    let other = "another session";
    for (one, other) in [
        (sealed("s"), sealed("s")),
        (sealed("s"), sealed(other)),
        (
            sealed_with(&first, &session("s")),
            sealed_with(&keys, &session("s")),
        ),
    ] {
        let both = [parts(&one), parts(&other)];
        for choice in 0..1_usize << 5 {
            let mixed: Vec<_> = (0..5).map(|part| both[choice >> part & 1][part]).collect();
            let mixed = mixed.join(".");
            let whole = mixed == one || mixed == other;
            assert_eq!(opened(&keys, &mixed).is_ok(), whole, "{choice:05b}");
        }
    }
}
