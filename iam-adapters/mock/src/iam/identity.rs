//! Which IAM a directory is, for those that tell one from another.

/// The issuer of the mock's default namespace, and what those of the others begin with.
const ISSUER: &str = "urn:auth-gateway:mock";

/// What the mock calls the gateway, as the only client that it has.
const CLIENT: &str = "auth-gateway";

/// What an IAM calls itself, and the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `iss` of its logout tokens: a URN inside the gateway, a URL over the wire.
    pub issuer: String,
    /// The gateway's client id, which is `aud` there.
    pub client: String,
}

impl Identity {
    /// The IAM of a namespace other than the default one, for which there is [`Identity::default`].
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Self {
        Self {
            issuer: format!("{ISSUER}:{namespace}"),
            ..Self::default()
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            issuer: ISSUER.to_owned(),
            client: CLIENT.to_owned(),
        }
    }
}
