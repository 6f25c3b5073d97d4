//! The users file of the mock, in each of its formats: all of it or none, and no message shows a
//! password.

#![no_main]

use auth_gateway_fuzz::CANARY;
use libfuzzer_sys::fuzz_target;
use mock_iam::Format;

/// A password that is not named where a key belongs: messages name unknown keys of letters and
/// underscores only.
const PASSWORD: &str = "CANARY-7";

fuzz_target!(|text: &str| {
    let text = &text.replace(CANARY, PASSWORD);
    for format in Format::ALL {
        match mock_iam::parse(text, format, "the file") {
            Ok(users) => assert!(users.iter().len() > 0),
            Err(refused) => {
                let told = refused.to_string();
                assert!(!without_addresses(&told).contains(PASSWORD), "{told}");
            }
        }
    }
});

/// A message without the addresses that it may name.
fn without_addresses(told: &str) -> String {
    let mut parts = told.split("(\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |rest, part| match part.split_once("\")") {
        Some((address, after)) if address.contains('@') => rest + after,
        _ => rest + part,
    })
}
