//! Asks a policy server for the permissions of a user, in the protocol of the Open Policy Agent's
//! data API: the response to `{"input": …}` is `{"result": ["scope", …]}`.

use reqwest::StatusCode;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use crate::client::UpstreamClient;
use crate::error::{Detail, IamError, Misconfiguration};
use crate::json;
use crate::scope::{Permission, Permissions};
use crate::types::Subject;

/// The most scopes of a response. The cache of permissions holds each.
const SCOPES_MAX: usize = 10_000;

/// A policy server.
#[derive(Debug)]
pub struct PolicyServer {
    /// The address of the decision.
    pub url: Url,
    /// The bearer token, if the server requires one.
    pub token: Option<SecretString>,
    /// Makes the calls.
    pub client: UpstreamClient,
}

/// Without `result` the decision is undefined, which is not "no permissions".
#[derive(Deserialize)]
struct DecisionResponse {
    result: Option<Vec<String>>,
}

impl PolicyServer {
    pub(super) async fn permissions(
        &self,
        iam: &str,
        subject: &Subject,
        at_iam: &Permissions,
        groups: Option<&[String]>,
    ) -> Result<Permissions, IamError> {
        let permissions: Vec<_> = at_iam.iter().map(Permission::as_str).collect();
        let request = serde_json::json!({
            "input": {
                "iam": iam,
                "subject": subject.as_str(),
                "groups": groups,
                "permissions": permissions,
            },
        });
        let mut call = self.client.post(&self.url).json(&request);
        if let Some(token) = &self.token {
            call = call.bearer_auth(token.expose_secret());
        }
        let response = self.client.send(call).await?;
        if response.status == StatusCode::OK {
            return scopes(&response.body);
        }
        Err(response.fault().unwrap_or_else(|| {
            let status = response.status.as_u16();
            IamError::misconfigured(
                Misconfiguration::PermissionSource,
                format!("status {status}: check permissions.url and token"),
            )
        }))
    }
}

/// The scopes of a response.
fn scopes(body: &[u8]) -> Result<Permissions, IamError> {
    let response: DecisionResponse = json::object(body)
        .map_err(|invalid| IamError::Unreadable(Detail::caused_by("policy server", invalid)))?;
    let no_result = "policy server: no result: the decision is undefined for this user, or there is \
                     none at this path";
    let result = response
        .result
        .ok_or_else(|| IamError::Unreadable(no_result.into()))?;
    if result.len() > SCOPES_MAX {
        let many = "policy server: more than 10,000 scopes";
        return Err(IamError::Unreadable(many.into()));
    }
    let names = result.iter().map(|name| Permission::parse(name));
    names.collect::<Result<_, _>>().map_err(|invalid| {
        let what = "policy server: a scope in the result";
        IamError::Unreadable(Detail::caused_by(what, invalid))
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::json::InvalidObject;

    #[test]
    fn result_is_a_list_of_scopes() {
        let read = |body: &str| {
            scopes(body.as_bytes()).map(|permissions| {
                permissions
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(read(r#"{"result": []}"#), Ok(vec![]));
        assert_eq!(
            read(r#"{"result": ["b", "a", "b"], "decision_id": "1"}"#),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        for unclear in [
            "",
            "[]",
            "{}",
            r#"{"result": null}"#,
            r#"{"result": {}}"#,
            r#"{"result": "a"}"#,
            r#"{"result": [1]}"#,
            r#"{"result": ["a b"]}"#,
            r#"{"result": [""]}"#,
            r#"{"result": true}"#,
            r#"{"result": [], "result": ["a"]}"#,
        ] {
            let fault = read(unclear).expect_err(unclear);
            assert!(matches!(fault, IamError::Unreadable(_)), "{unclear}");
        }
        for (unclear, cause) in [
            ("[]", InvalidObject::NotAnObject),
            ("{", InvalidObject::Members),
        ] {
            let fault = read(unclear).expect_err(unclear);
            let source = fault.source().and_then(<dyn Error>::downcast_ref);
            assert_eq!(source, Some(&cause), "{fault}");
        }
        let many = vec!["a"; SCOPES_MAX + 1];
        let many = serde_json::json!({ "result": many }).to_string();
        assert!(matches!(read(&many), Err(IamError::Unreadable(_))));
    }
}
