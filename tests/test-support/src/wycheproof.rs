//! The JOSE vectors of Wycheproof (C2SP/wycheproof, `testvectors_v1`), if a folder with them
//! exists: each has a token, the keys to verify it, and the expected result. They are not part of
//! this project.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Once;

use serde_json::Value;

/// The variable with the folder that contains `json_web_signature_test.json` and the other files.
const FOLDER: &str = "WYCHEPROOF_VECTORS";

/// One vector, with the shared data of its group.
pub struct Vector {
    /// The file and the number, for messages.
    pub name: String,
    /// The shared data of its group.
    pub group: String,
    /// What is tested.
    pub comment: String,
    /// The token, in any form.
    pub token: String,
    /// Whether it is valid.
    pub valid: bool,
    /// The key or key set of its sender.
    pub private: Value,
    /// The key or key set of its receiver; null if both share a secret.
    pub public: Value,
}

/// The vectors of a kind (`signature`, `encryption`, `key`, `crypto`); empty, with a message, if no
/// folder is set.
pub fn vectors(kind: &str) -> Option<Vec<Vector>> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        static ONCE: Once = Once::new();
        // The test harness does not print the output of macros for passed tests.
        ONCE.call_once(|| {
            let message =
                format!("\n!!!!!!!!!! NOT RUN: Wycheproof's vectors: {FOLDER} names no folder\n");
            let _ = io::stderr().write_all(message.as_bytes());
        });
        return None;
    };
    let path = Path::new(&folder).join(format!("json_web_{kind}_test.json"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Value = serde_json::from_slice(&text).expect("JSON");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found = Vec::new();
    for group in file["testGroups"].as_array().expect("groups") {
        for test in group["tests"].as_array().expect("tests") {
            let token = text(&test["jws"]).or_else(|| text(&test["jwe"]));
            found.push(Vector {
                name: format!("{kind} {}", test["tcId"]),
                group: text(&group["comment"]).expect("a comment"),
                comment: text(&test["comment"]).expect("a comment"),
                // A token in another serialization is an object, which is invalid here as well.
                token: token.unwrap_or_else(|| test["jws"].to_string()),
                valid: test["result"] == "valid",
                private: group["private"].clone(),
                public: group["public"].clone(),
            });
        }
    }
    assert_eq!(Some(found.len() as u64), file["numberOfTests"].as_u64());
    Some(found)
}

/// The keys in a key or key set.
pub fn keys(value: &Value) -> Vec<&Value> {
    match value.get("keys").and_then(Value::as_array) {
        Some(keys) => keys.iter().collect(),
        None if value.is_object() => vec![value],
        None => Vec::new(),
    }
}
