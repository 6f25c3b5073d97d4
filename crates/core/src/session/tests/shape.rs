//! Malformed tokens.

use proptest::prelude::*;

use super::*;

#[test]
fn token_with_a_moved_dot_is_refused() {
    let keys = key_set();
    // Contents of every length modulo 3, for every alignment.
    for token in ["a", "ab", "abc"].map(sealed) {
        let dots: Vec<_> = token.match_indices('.').map(|(at, _)| at).collect();
        let bare = token.replace('.', "");
        for (number, dot) in dots.iter().enumerate() {
            for to in dot.saturating_sub(40)..(dot + 40).min(token.len()) {
                let mut places: Vec<_> = dots.iter().enumerate().map(|(n, d)| d - n).collect();
                places[number] = to.saturating_sub(number).min(bare.len());
                places.sort_unstable();
                let mut moved = bare.clone();
                for place in places.iter().rev() {
                    moved.insert(*place, '.');
                }
                if moved != token {
                    assert!(opened(&keys, &moved).is_err(), "dot {number} to {to}");
                }
            }
        }
    }
}

#[test]
fn token_with_another_split_of_content_and_tag_is_refused() {
    let keys = key_set();
    for token in ["a", "ab", "abc"].map(sealed) {
        let [header, _, nonce, text, tag] = parts(&token);
        let mut run = BASE64.decode(text).unwrap();
        run.extend(BASE64.decode(tag).unwrap());
        for cut in 0..=run.len() {
            let (text, tag) = run.split_at(cut);
            let (text, tag) = (BASE64.encode(text), BASE64.encode(tag));
            let recut = format!("{header}..{nonce}.{text}.{tag}");
            assert_eq!(opened(&keys, &recut).is_ok(), recut == token, "{cut}");
        }
    }
}

#[test]
fn token_has_five_parts_and_the_second_is_empty() {
    let keys = key_set();
    let token = sealed("s");
    let [header, _, nonce, text, tag] = parts(&token);
    for wrong in [
        String::new(),
        ".".to_owned(),
        "....".to_owned(),
        ".".repeat(TOKEN_BYTES_MAX),
        format!("{header}..{nonce}.{text}{tag}"),
        format!("{header}.{nonce}.{text}.{tag}"),
        format!("{token}."),
        format!("{token}.{tag}"),
        format!(".{token}"),
        format!("{header}.A.{nonce}.{text}.{tag}"),
        format!("{header}.{nonce}.{nonce}.{text}.{tag}"),
        format!("{header}....."),
        format!("{header}...."),
        format!("{header}..{nonce}.."),
        format!("{header}..{nonce}.{text}."),
        format!("{header}..{nonce}..{tag}"),
    ] {
        assert!(opened(&keys, &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn non_canonical_base64_is_refused_in_every_part() {
    let keys = key_set();
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for token in ["a", "ab", "abc"].map(sealed) {
        let right = parts(&token);
        for part in [0, 2, 3, 4] {
            let text = right[part];
            let mut forms: Vec<String> =
                ["=", "==", "A", "AA", "AAA", "AAAA", " ", "\n", "\0", "é"]
                    .iter()
                    .flat_map(|more| [format!("{text}{more}"), format!("{more}{text}")])
                    .collect();
            forms.push(format!("{} {}", &text[..4], &text[4..]));
            forms.push(text[..text.len() - 1].to_owned());
            for (url, plain) in [("-", "+"), ("_", "/")] {
                if text.contains(url) {
                    forms.push(text.replace(url, plain));
                }
            }
            // All other last letters, including those that set unused bits.
            for letter in letters {
                let last = char::from(*letter);
                if !text.ends_with(last) {
                    forms.push(format!("{}{last}", &text[..text.len() - 1]));
                }
            }
            for form in forms {
                let mut wrong = right;
                wrong[part] = &form;
                let wrong = wrong.join(".");
                assert!(opened(&keys, &wrong).is_err(), "part {part}: {form:?}");
            }
        }
    }
}

#[test]
fn too_long_token_is_refused_before_decoding() {
    let [header, _, nonce, _, tag] = parts(&sealed("s")).map(str::to_owned);
    let frame = header.len() + nonce.len() + tag.len() + 4;
    for (length, decoded) in [(TOKEN_BYTES_MAX, true), (TOKEN_BYTES_MAX + 1, false)] {
        let text = "A".repeat(length - frame);
        let token = format!("{header}..{nonce}.{text}.{tag}");
        assert_eq!(token.len(), length);
        let mut buffer = Zeroizing::default();
        assert!(open(&key_set(), &token, &mut buffer).is_err());
        assert_eq!(buffer.capacity() > 0, decoded);
    }
}

#[test]
fn expensive_input_is_refused_before_decoding() {
    let [header, _, nonce, _, tag] = parts(&sealed("s")).map(str::to_owned);
    let mebibytes = "A".repeat(10 << 20);
    let under = |header: &str| {
        let header = BASE64.encode(header);
        format!("{header}..{nonce}.{}.{tag}", "A".repeat(4_000))
    };
    let deep = format!(r#"{{"alg":{}1{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    for expensive in [
        ".".repeat(1_000_000),
        mebibytes.clone(),
        format!("{header}..{nonce}.{mebibytes}.{tag}"),
        format!("{mebibytes}..{nonce}.AAAA.{tag}"),
        format!("{header}..{nonce}.AAAA.{mebibytes}"),
        format!("{header}.{}.{nonce}.AAAA.{tag}", "A".repeat(4_000)),
        under(r#"{"alg":"dir","enc":"A256GCM","kid":"k1","zip":"DEF"}"#),
        under(r#"{"alg":"PBES2-HS512+A256KW","enc":"A256GCM","p2c":2147483647,"p2s":"AAAA"}"#),
        under(&deep),
    ] {
        let mut buffer = Zeroizing::default();
        assert!(open(&key_set(), &expensive, &mut buffer).is_err());
        assert_eq!(
            buffer.capacity(),
            0,
            "{} bytes were decoded",
            expensive.len()
        );
    }
}

proptest! {
    #[test]
    fn random_text_is_refused_without_a_panic(
        text in "\\PC{0,80}|[A-Za-z0-9_.=-]{0,200}",
        nonce in "[A-Za-z0-9_-]{0,20}|[A-Za-z0-9_-]{16}",
        content in "[A-Za-z0-9_-]{0,60}",
        tag in "[A-Za-z0-9_-]{0,40}|[A-Za-z0-9_-]{21}[AQgw]",
    ) {
        let keys = key_set();
        prop_assert!(opened(&keys, &text).is_err());
        let token = sealed("s");
        let header = parts(&token)[0];
        let framed = format!("{header}..{nonce}.{content}.{tag}");
        prop_assert!(opened(&keys, &framed).is_err());
    }
}
