//! Types with secrets cannot be serialized or formatted by accident.

use std::fmt::{Debug, Display};

use aws_lc_rs::rand::SystemRandom;
use iam_adapters::{Authenticated, Credentials, UpstreamSession};
use secrecy::SecretString;
use serde::Serialize;
use test_support::LogoutSigner;
use zeroize::Zeroizing;

use crate::keys::{KeyFile, SealingKey, SigningKey};
use crate::results::NewSession;
use crate::sealed_session::SealedSession;
use crate::session_id::SessionId;
use crate::upstream_logouts::UpstreamLogout;
use crate::{AccessToken, Keys};

/// Does not compile if the type implements the trait, because then `name` is ambiguous.
macro_rules! never {
    ($trait:path: $($secret:ty),* $(,)?) => {$(
        const _: fn() = || {
            trait Named<Way> {
                fn name() {}
            }
            struct ByTheTrait;
            impl<T: ?Sized> Named<()> for T {}
            impl<T: ?Sized + $trait> Named<ByTheTrait> for T {}
            let _ = <$secret as Named<_>>::name;
        };
    )*};
}

never!(Serialize:
    SecretString, Zeroizing<Vec<u8>>, Credentials, UpstreamSession, Authenticated, LogoutSigner,
    SealingKey, SigningKey, KeyFile, Keys, AccessToken, NewSession, SessionId, UpstreamLogout,
);
never!(Display:
    SecretString, Zeroizing<Vec<u8>>, Credentials, UpstreamSession, Authenticated, LogoutSigner,
    SealingKey, SigningKey, KeyFile, Keys, AccessToken, NewSession, SealedSession<'static>,
);
never!(Debug: KeyFile, SealedSession<'static>, UpstreamLogout);

#[test]
fn debug_output_contains_no_secret() {
    const CANARY: &str = "canary";
    let id = SessionId::generate(&SystemRandom::new()).unwrap();
    let new = NewSession {
        sub: "subject".to_owned(),
        session_id: id,
        session_token: CANARY.into(),
        verified_at: 0,
        expires_at: 0,
    };
    let secret: Vec<u8> = (b'a'..).take(32).collect();
    let key = SealingKey::new(&secret, "k1", jiff::Timestamp::UNIX_EPOCH).unwrap();
    let shown = format!("{new:?} {key:?}");
    for hidden in [CANARY, &id.to_string(), "abcdefgh", "97, 98", "6162"] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
}
