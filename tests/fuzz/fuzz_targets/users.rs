//! The users file of the mock, in each of its formats, is used completely or refused, and no message
//! contains a password.

#![no_main]

use auth_gateway_fuzz::CANARY;
use libfuzzer_sys::fuzz_target;
use mock_iam::Format;

/// A password with characters that keys do not have: messages name unknown keys of letters and
/// underscores only.
const PASSWORD: &str = "CANARY-7";

fuzz_target!(|text: &str| {
    let text = &text.replace(CANARY, PASSWORD);
    for format in Format::ALL {
        match mock_iam::parse(text, format, "the file") {
            Ok(users) => assert!(users.iter().len() > 0),
            Err(refused) => {
                let message = refused.to_string();
                assert!(!without_addresses(&message).contains(PASSWORD), "{message}");
            }
        }
    }
});

/// A message without the addresses that it may name.
fn without_addresses(message: &str) -> String {
    let mut parts = message.split("(\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |rest, part| match part.split_once("\")") {
        Some((address, after)) if address.contains('@') => rest + after,
        _ => rest + part,
    })
}
