//! Secrets that are found in every encoding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

/// The shortest secret, so that it cannot occur by chance.
const MIN_LENGTH: usize = 12;

/// One secret and its description.
#[derive(Debug, Clone)]
pub struct Canary {
    /// What the secret is, for messages.
    pub what: &'static str,
    encodings: Vec<String>,
}

impl Canary {
    /// A canary for a secret of at least 12 bytes.
    pub fn new(what: &'static str, secret: &str) -> Self {
        assert!(
            secret.len() >= MIN_LENGTH,
            "{what} is so short that it could occur by chance"
        );
        let bytes = secret.as_bytes();
        let mut encodings = vec![secret.to_owned(), trimmed(&format!("{bytes:?}"), 1, 1)];
        encodings.push(
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .concat(),
        );
        encodings.push(percent_encoded(secret));
        // Inside a longer text, the base64 of a secret depends on the text before it, and its first
        // and last characters on the neighbouring bytes.
        for before in 0..3 {
            let padded = [&b"xx"[..before], bytes].concat();
            let text = BASE64.encode(&padded);
            let first = (before * 8).div_ceil(6);
            let whole = padded.len() * 8 / 6;
            encodings.push(text[first..whole].to_owned());
            encodings.push(text[first..whole].replace('+', "-").replace('/', "_"));
        }
        Self { what, encodings }
    }

    /// Whether the text contains the secret.
    pub fn is_in(&self, text: &str) -> bool {
        self.encodings
            .iter()
            .any(|encoding| text.contains(encoding))
    }
}

fn trimmed(text: &str, first: usize, last: usize) -> String {
    text[first..text.len() - last].to_owned()
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'*' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect::<Vec<_>>().concat()
}

#[test]
fn canary_is_found_in_every_encoding() {
    let secret = "a secret/of+the client";
    let canary = Canary::new("a secret", secret);
    for text in [
        format!("before {secret} after"),
        format!("{:?}", format!("x{secret}y").as_bytes()),
        BASE64.encode(secret.as_bytes()),
        format!(
            "Basic {}",
            BASE64.encode(format!("client:{secret}").as_bytes())
        ),
        BASE64.encode(format!("ab:{secret}:after").as_bytes()),
        BASE64
            .encode(format!("a:{secret}:after").as_bytes())
            .replace('+', "-")
            .replace('/', "_"),
        "password=a%20secret%2Fof%2Bthe%20client&a=b".to_owned(),
    ] {
        assert!(canary.is_in(&text), "{text}");
    }
    assert!(!canary.is_in("a secret of another client"));
}
