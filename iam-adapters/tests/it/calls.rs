//! Calls of an adapter for one user, and their results.

use std::net::IpAddr;
use std::sync::Arc;

use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamAdapter, IamError, Misconfiguration, Permission,
    Permissions,
};

pub(super) const PASSWORD: &str = "alice-pass";
/// The secret of the client.
pub(super) const SECRET: &str = "gate-secret-0123456789";

pub(super) fn credentials(password: &str) -> Credentials {
    Credentials::new("alice@example.test".to_owned(), password.into()).expect("credentials")
}

pub(super) fn client() -> ClientContext {
    ClientContext {
        address: Some(IpAddr::from([192, 0, 2, 7]).into()),
        request_id: "request-1".to_owned(),
    }
}

/// A login with the right password.
pub(super) async fn log_in(adapter: &Arc<dyn IamAdapter>) -> Result<Authenticated, IamError> {
    let credentials = credentials(PASSWORD);
    adapter.authenticate(&credentials, &client()).await
}

pub(super) fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .map(|name| Permission::parse(name).expect(name))
        .collect()
}

/// The cause, if the result is a misconfiguration.
pub(super) fn misconfigured<T>(result: &Result<T, IamError>) -> Option<Misconfiguration> {
    match result {
        Err(IamError::Misconfigured { what, .. }) => Some(*what),
        _ => None,
    }
}

/// Panics unless the result is this misconfiguration.
#[track_caller]
pub(super) fn is_misconfigured<T>(result: &Result<T, IamError>, what: Misconfiguration) {
    assert_eq!(misconfigured(result), Some(what), "{}", kind(result));
}

/// The kind of the error, or `ok`.
pub(super) fn kind<T>(result: &Result<T, IamError>) -> &'static str {
    result.as_ref().map_or_else(IamError::kind, |_| "ok")
}
