//! Wycheproof's vectors before the seal: tokens of other houses, under every key there is.

use test_support::wycheproof::{keys, vectors};

use super::*;

#[test]
fn no_token_of_others_opens_as_it_is_or_under_our_header() {
    let own = key_set();
    let header = parts(&sealed("s"))[0].to_owned();
    let mut opened_with = 0;
    for kind in ["encryption", "signature", "crypto", "key"] {
        for vector in vectors(kind).into_iter().flatten() {
            // Also where its sender and this gateway have the same secret.
            let shared = keys(&vector.private).into_iter().filter_map(|key| {
                let secret = BASE64.decode(key["k"].as_str()?).ok()?;
                let key = SealingKey::new(&secret, "k1", Timestamp::UNIX_EPOCH).ok()?;
                KeySet::new(vec![key]).ok()
            });
            let key_sets: Vec<_> = shared.collect();
            let token = &vector.token;
            let rest = token.split_once('.').map_or("", |(_, rest)| rest);
            // Without its encrypted key, as `dir` has none.
            let direct = rest.split_once('.').map_or("", |(_, rest)| rest);
            let parts: Vec<_> = token.split('.').collect();
            let mut forms = vec![
                token.clone(),
                format!("{header}.{rest}"),
                format!("{header}..{direct}"),
            ];
            if let [_, _, nonce, text, tag] = parts[..] {
                // With a nonce and a tag as long as ours, should theirs be longer.
                let cut = |part: &str, length| part.get(..length).unwrap_or(part).to_owned();
                forms.push(format!(
                    "{header}..{}.{text}.{}",
                    cut(nonce, 16),
                    cut(tag, TAG_TEXT_LEN)
                ));
            }
            for key_set in key_sets.iter().chain([&own]) {
                opened_with += 1;
                for form in &forms {
                    assert!(opened(key_set, form).is_err(), "{}: {form}", vector.name);
                }
            }
        }
    }
    assert!(opened_with == 0 || opened_with >= 650, "{opened_with}");
}
