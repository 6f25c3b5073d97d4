//! The users file of the mock: all of it or none, and no message shows a password.

#![no_main]

use auth_gateway_fuzz::CANARY;
use iam_adapters::mock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match mock::parse(text, "the file") {
        Ok(users) => assert!(users.iter().len() > 0),
        Err(refused) => {
            // A message may name an address or a subject, never what stands in `password`.
            let elsewhere =
                text.matches(CANARY).count() != text.matches("password = \"CANARY").count();
            assert!(
                elsewhere || !refused.to_string().contains(CANARY),
                "{refused}"
            );
        }
    }
});
