//! The wire protocols of the kinds of IAM, for tests that run over each of them.

use serde_json::Value;

use super::{Answer, ScriptedUpstream};

/// A kind of IAM on the wire: its paths, and its responses about the one user.
#[derive(Debug, Clone, Copy)]
pub struct WireProtocol {
    /// The name of the kind.
    pub name: &'static str,
    /// The name of the adapter.
    pub adapter: &'static str,
    /// The path of the discovery document, or without one, of the probe.
    pub discovery: &'static str,
    /// The path of the token endpoint.
    pub token: &'static str,
    /// The path of the introspection endpoint.
    pub introspection: &'static str,
    /// The path that ends a session.
    pub logout: &'static str,
    /// The body of a successful login.
    pub grant: fn() -> Value,
    /// The body of an introspection of an active session.
    pub active: fn() -> Value,
    /// The response to an introspection of anything else.
    pub inactive: fn() -> Answer,
    /// The last path that a probe calls, and the response to a probe.
    pub probe: fn() -> (&'static str, Answer),
    /// The responses to wrong credentials.
    pub refusals: fn() -> Vec<Answer>,
    /// Before it reports a refusal, the adapter introspects an invalid token.
    pub proves_refusals: bool,
    /// The logout is a revocation (RFC 7009), of which only the status counts.
    pub logout_is_revocation: bool,
    /// The discovery document of an issuer.
    pub metadata: fn(&str) -> Answer,
    /// From then on every login succeeds.
    pub works: fn(&ScriptedUpstream) -> &ScriptedUpstream,
    /// The settings of a gateway for a server at this address, with this client secret.
    pub settings: fn(&str, &str) -> Vec<(&'static str, String)>,
}

impl WireProtocol {
    /// The endpoints that a client's request can cause a call to.
    #[must_use]
    pub const fn endpoints(&self) -> [&'static str; 3] {
        [self.token, self.introspection, self.logout]
    }

    /// The next login is refused.
    pub fn refuse_once(&self, iam: &ScriptedUpstream) {
        for refusal in (self.refusals)().into_iter().take(1) {
            iam.once(self.token, refusal);
        }
        if self.proves_refusals {
            iam.once(self.introspection, (self.inactive)());
        }
    }
}

impl ScriptedUpstream {
    /// Starts a server whose every login succeeds.
    pub async fn of(protocol: &WireProtocol) -> Self {
        let upstream = Self::start().await;
        (protocol.works)(&upstream);
        upstream
    }
}
