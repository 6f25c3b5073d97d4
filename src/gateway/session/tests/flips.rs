//! Tokens of which a little was changed: a million of them, so that no rare shape is the one that opens.

use std::thread;

use super::*;

/// Flips each bit of each character of a token, and opens what comes of it; how many there were.
/// The eighth bit alone would make it no text.
fn flips_that_were_noticed(keys: &KeySet<SealingKey>, token: &str) -> usize {
    let mut text = token.to_owned();
    let mut noticed = 0;
    for at in 0..token.len() {
        for bit in 0..7 {
            let was = token.as_bytes()[at];
            let is = char::from(was ^ 1 << bit);
            text.replace_range(at..=at, is.encode_utf8(&mut [0; 4]));
            let mut buffer = Zeroizing::default();
            assert!(open(keys, &text, &mut buffer).is_err(), "{at} {bit} {text}");
            noticed += 1;
            text.replace_range(at..=at, char::from(was).encode_utf8(&mut [0; 4]));
        }
    }
    noticed
}

#[test]
fn of_a_million_flips_of_a_single_bit_every_one_is_noticed() {
    const FLIPS: usize = 1_000_000;
    let keys = key_set();
    let flip = |share: usize| {
        let mut noticed = 0;
        // Contents of every length, so that text and tag stand at every alignment.
        for length in 0.. {
            if noticed >= FLIPS / 4 {
                break;
            }
            let secret = "s".repeat((length * 4 + share) % 256);
            noticed += flips_that_were_noticed(&keys, &sealed_with(&keys, &session(&secret)));
        }
        noticed
    };
    let noticed: usize = thread::scope(|scope| {
        let shares: Vec<_> = (0..4)
            .map(|share| scope.spawn(move || flip(share)))
            .collect();
        shares.into_iter().map(|share| share.join().unwrap()).sum()
    });
    assert!(noticed >= FLIPS, "{noticed}");
}

#[test]
fn a_token_with_a_character_less_or_more_is_no_token() {
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
fn parts_of_two_tokens_make_no_third() {
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
