//! A session id has exactly one text form.

#![no_main]

use auth_gateway_core::session_id::SessionId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(id) = SessionId::parse(text) {
        assert_eq!(id.to_string(), text);
        assert!(SessionId::parse(&format!("{text}A")).is_none());
        assert!(!format!("{id:?}").contains(text));
    }
});
