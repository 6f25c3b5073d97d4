//! A key file has at most one purpose, and only the public part of a signing key is published.

#![no_main]

use auth_gateway_core::keys::{Key as _, KeyFile, KeyPurpose, SealingKey, SigningKey};
use auth_gateway_fuzz::CANARY;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let file = match KeyFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            assert!(!format!("{error} {error:?}").contains(CANARY));
            return;
        }
    };
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    assert!((1..=64).contains(&file.kid().len()) && file.kid().chars().all(fit));
    let (signing, sealing) = (SigningKey::from_file(&file), SealingKey::from_file(&file));
    assert!(signing.is_err() || sealing.is_err());
    if let Ok(key) = &sealing {
        assert_eq!(file.purpose(), Some(KeyPurpose::Sealing));
        assert_eq!(key.kid(), file.kid());
    }
    if let Ok(key) = &signing {
        assert_eq!(file.purpose(), Some(KeyPurpose::Signing(key.algorithm())));
        let published = serde_json::to_value(key.public_jwk()).expect("JSON");
        let published = published.as_object().expect("an object");
        let public = ["alg", "crv", "e", "kid", "kty", "n", "use", "x", "y"];
        assert!(published.keys().all(|name| public.contains(&name.as_str())));
    }
    assert!(!format!("{signing:?} {sealing:?}").contains(CANARY));
});
