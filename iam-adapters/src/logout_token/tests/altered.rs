//! Altered tokens, and random input.

use proptest::prelude::*;

use super::fixture::{Fixture, claims, header};

#[tokio::test]
async fn token_with_any_one_changed_character_is_refused() {
    let fixture = Fixture::new();
    let valid = fixture.sign(&header(&fixture), &claims(&fixture));
    fixture.tokens.verify(&valid).await.unwrap();
    for at in 0..valid.len() {
        let (before, after) = valid.split_at(at);
        let own = after.chars().next().unwrap();
        let rest = &after[1..];
        for other in ['A', 'w', '.', '=', '+'].into_iter().filter(|c| *c != own) {
            let altered = format!("{before}{other}{rest}");
            assert!(fixture.refusal(&altered).await.is_some(), "{at} {other}");
        }
        let shorter = format!("{before}{rest}");
        assert!(fixture.refusal(&shorter).await.is_some(), "without {at}");
        let longer = format!("{before}A{after}");
        assert!(
            fixture.refusal(&longer).await.is_some(),
            "with one more at {at}"
        );
    }
}

proptest! {
    #[test]
    fn random_input_is_refused_without_a_panic(
        text in "\\PC{0,200}",
        parts in prop::collection::vec("[A-Za-z0-9_-]{0,60}", 0..6),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let payload = String::from_utf8_lossy(&bytes);
            let signed = fixture.signer.sign(&header(&fixture).to_string(), &payload).unwrap();
            let headed = fixture.signer.sign(&payload, &claims(&fixture).to_string()).unwrap();
            for token in [text, parts.join("."), signed, headed] {
                assert!(fixture.refusal(&token).await.is_some(), "{token}");
            }
        });
    }
}
