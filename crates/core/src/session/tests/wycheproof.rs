//! Wycheproof's vectors as session tokens, with all available keys.

use test_support::wycheproof::{keys, vectors};

use super::*;

#[test]
#[ignore = "needs the vectors of C2SP/wycheproof"]
fn no_vector_opens_unchanged_or_with_the_header_of_session_tokens() {
    let own = key_set();
    let header = parts(&sealed("s"))[0].to_owned();
    let mut opened_with = 0;
    for kind in ["encryption", "signature", "crypto", "key"] {
        for vector in vectors(kind) {
            // Also with the secret of the vector as the sealing key.
            let shared = keys(&vector.private).into_iter().filter_map(|key| {
                let secret = BASE64.decode(key["k"].as_str()?).ok()?;
                let key = SealingKey::new(&secret, "k1", jiff::Timestamp::UNIX_EPOCH).ok()?;
                KeySet::new(vec![key]).ok()
            });
            let key_sets: Vec<_> = shared.collect();
            let token = &vector.token;
            let rest = token.split_once('.').map_or("", |(_, rest)| rest);
            // Without the encrypted key, which `dir` does not have.
            let direct = rest.split_once('.').map_or("", |(_, rest)| rest);
            let parts: Vec<_> = token.split('.').collect();
            let mut forms = vec![
                token.clone(),
                format!("{header}.{rest}"),
                format!("{header}..{direct}"),
            ];
            if let [_, _, nonce, text, tag] = parts[..] {
                // Truncated to the lengths of nonce and tag of session tokens.
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
    assert!(opened_with >= 650, "{opened_with}");
}
