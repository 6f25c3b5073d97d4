//! The key set of an IAM is refused, or has at least one key that can verify.

#![no_main]

use iam_adapters::jwk::VerificationKeys;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    if VerificationKeys::parse(text).is_ok() {
        assert!(std::str::from_utf8(text).is_ok());
        if let Ok(set) = serde_json::from_slice::<Value>(text) {
            let keys = set["keys"].as_array().expect("a list of keys");
            let usable = |key: &Value| {
                let named = key["kid"].is_string();
                let kind = ["RSA", "EC", "OKP"].contains(&key["kty"].as_str().unwrap_or_default());
                let usage = key
                    .get("use")
                    .is_none_or(|usage| usage.is_null() || usage == "sig");
                named && kind && usage
            };
            assert!(keys.iter().any(usable));
        }
    }
});
