//! Tokens that nobody signed as they are: a genuine one changed anywhere, and plain noise.

use proptest::prelude::*;

use super::house::{House, claims, header};

#[tokio::test]
async fn a_genuine_token_changed_in_any_one_character_is_refused() {
    let house = House::new();
    let genuine = house.sign(&header(&house), &claims(&house));
    house.tokens.verify(&genuine).await.unwrap();
    for at in 0..genuine.len() {
        let (before, after) = genuine.split_at(at);
        let own = after.chars().next().unwrap();
        let rest = &after[1..];
        for other in ['A', 'w', '.', '=', '+'].into_iter().filter(|c| *c != own) {
            let altered = format!("{before}{other}{rest}");
            assert!(house.why(&altered).await.is_some(), "{at} {other}");
        }
        let shorter = format!("{before}{rest}");
        assert!(house.why(&shorter).await.is_some(), "without {at}");
        let longer = format!("{before}A{after}");
        assert!(house.why(&longer).await.is_some(), "with one more at {at}");
    }
}

proptest! {
    #[test]
    fn noise_is_refused_and_breaks_nothing(
        noise in "\\PC{0,200}",
        parts in prop::collection::vec("[A-Za-z0-9_-]{0,60}", 0..6),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let house = House::new();
            let payload = String::from_utf8_lossy(&bytes);
            let signed = house.signer.sign(&header(&house).to_string(), &payload).unwrap();
            let headed = house.signer.sign(&payload, &claims(&house).to_string()).unwrap();
            for token in [noise, parts.join("."), signed, headed] {
                assert!(house.why(&token).await.is_some(), "{token}");
            }
        });
    }
}
