//! Texts that only the development program may contain.

use std::fs;

use memchr::memmem;

/// Each part of the mock, and a text that its code or data contains.
pub const MARKERS: [(&str, &str); 8] = [
    ("control API", "/mock/v1"),
    ("description of the control API", "/mock/v1/tokens/inspect"),
    ("console", "<title>Mock IAM</title>"),
    ("published key: id", "test-only-not-secret"),
    (
        "published key: private member",
        "hoBRItPfs4udK7ClMBWRIXTu0wA4VVPCV5HuRh8TeR4",
    ),
    ("test tokens", "a test token cannot be signed"),
    ("Keycloak's wire protocol", "HTTP 405 Method Not Allowed"),
    ("demo users", "bob-pass"),
];

/// The parts of the mock that a program file contains.
pub fn found_in(program: &str) -> Vec<&'static str> {
    let bytes = fs::read(program).expect("a program");
    let contains = |text: &str| memmem::find(&bytes, text.as_bytes()).is_some();
    let found = MARKERS.iter().filter(|(_, text)| contains(text));
    found.map(|(part, _)| *part).collect()
}
