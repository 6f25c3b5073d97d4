//! The JOSE vectors of Wycheproof (C2SP/wycheproof, `testvectors_v1`): each has a token, the keys to verify it, and the
//! expected result. They are not part of this project, so the tests with them are ignored unless they are asked for.

use std::path::Path;

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

/// The vectors of a kind (`signature`, `encryption`, `key`, `crypto`).
///
/// # Panics
///
/// If a file is missing, or does not contain as many vectors as it states, or none.
pub fn vectors(kind: &str) -> Vec<Vector> {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder"));
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
    assert!(!found.is_empty(), "{}: no vectors", path.display());
    assert_eq!(Some(found.len() as u64), file["numberOfTests"].as_u64());
    found
}

/// The keys in a key or key set.
pub fn keys(value: &Value) -> Vec<&Value> {
    match value.get("keys").and_then(Value::as_array) {
        Some(keys) => keys.iter().collect(),
        None if value.is_object() => vec![value],
        None => Vec::new(),
    }
}
