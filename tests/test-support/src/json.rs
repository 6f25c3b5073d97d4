//! JSON objects with other members.

use serde_json::Value;

/// The object with these members, in place of its own ones of the same names.
pub fn with(mut object: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        object[name] = value.clone();
    }
    object
}

/// The object without a member.
pub fn without(mut object: Value, member: &str) -> Value {
    object.as_object_mut().expect("an object").remove(member);
    object
}
