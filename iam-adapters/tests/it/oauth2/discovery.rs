//! The discovery document and configured endpoints.

use iam_adapters::Misconfiguration;
use serde_json::json;
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{
    DISCOVERY, INTROSPECTION, REVOCATION, TOKEN, adapter, adapter_with, error, healthy, inactive,
    is_misconfigured, kind, log_in, metadata, misconfigured, session,
};

#[tokio::test]
async fn discovery_document_is_fetched_once_until_a_probe() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    assert!(upstream.requests().is_empty(), "nothing is called at start");
    let session = session(&oauth2).await;
    assert_eq!(kind(&oauth2.introspect(&session).await), "ok");
    assert_eq!(oauth2.end_session(&session).await, Ok(()));
    assert_eq!(upstream.requests_to(DISCOVERY).len(), 1);
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(oauth2.probe().await, Ok(()));
    assert_eq!(upstream.requests_to(DISCOVERY).len(), 2);
}

#[tokio::test]
async fn issuer_must_match_exactly_before_a_password_is_sent() {
    let upstream = healthy().await;
    for issuer in [
        format!("{}/iam/", upstream.url()),
        format!("{}/IAM", upstream.url()),
        "https://another.test/iam".to_owned(),
    ] {
        let mut document = metadata(&upstream);
        document["issuer"] = json!(issuer);
        upstream.on(DISCOVERY, Answer::json(200, document));
        let oauth2 = adapter(&upstream);
        let login = log_in(&oauth2).await;
        is_misconfigured(&login, Misconfiguration::Issuer);
        is_misconfigured(&oauth2.probe().await, Misconfiguration::Issuer);
    }
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn discovery_document_without_usable_endpoints_is_a_misconfiguration() {
    let upstream = healthy().await;
    for member in [
        "token_endpoint",
        "introspection_endpoint",
        "revocation_endpoint",
    ] {
        for value in [
            json!(null),
            json!("no address"),
            json!("ftp://x.test/"),
            json!("http://a:b@x.test/"),
        ] {
            let mut document = metadata(&upstream);
            document[member] = value;
            upstream.on(DISCOVERY, Answer::json(200, document));
            let oauth2 = adapter(&upstream);
            let login = log_in(&oauth2).await;
            is_misconfigured(&login, Misconfiguration::Other);
            let error = login.expect_err("no endpoint").to_string();
            assert!(error.contains(member), "{error}");
            // One that is set replaces it.
            let url = upstream.url();
            let set = match member {
                "token_endpoint" => TOKEN,
                "introspection_endpoint" => INTROSPECTION,
                _ => REVOCATION,
            };
            let oauth2 = adapter_with(&upstream, &json!({member: format!("{url}{set}")}));
            session(&oauth2).await;
        }
    }
}

#[tokio::test]
async fn with_all_endpoints_set_there_is_no_discovery_unless_it_is_set_too() {
    let upstream = healthy().await;
    let url = upstream.url();
    let mut changes = metadata(&upstream);
    let oauth2 = adapter_with(&upstream, &changes);
    session(&oauth2).await;
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(oauth2.probe().await, Ok(()));
    assert!(upstream.requests_to(DISCOVERY).is_empty());

    // RFC 8414 section 3: the well-known part precedes the path of the issuer.
    let rfc8414 = "/.well-known/oauth-authorization-server/iam";
    upstream.on(rfc8414, Answer::json(200, metadata(&upstream)));
    changes["discovery_url"] = json!(format!("{url}{rfc8414}"));
    assert_eq!(adapter_with(&upstream, &changes).probe().await, Ok(()));
    assert_eq!(upstream.requests_to(rfc8414).len(), 1);
}

#[tokio::test]
async fn probe_proves_the_credentials_and_the_grant_without_a_user() {
    use Misconfiguration::{ClientSecret, Other, PasswordLogin};
    let upstream = healthy().await;
    upstream.on(INTROSPECTION, inactive());
    let oauth2 = adapter(&upstream);
    upstream.on(TOKEN, error(400, "invalid_request"));
    for _ in 0..2 {
        assert_eq!(oauth2.probe().await, Ok(()));
    }
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
    assert_eq!(upstream.requests_to(TOKEN)[0].text(), "grant_type=password");

    let of_oidc_provider = json!({
        "error": "invalid_request",
        "error_description": "requested grant type is not allowed for this client",
    });
    for (path, answer, expected) in [
        (INTROSPECTION, Answer::empty(401), ClientSecret),
        (INTROSPECTION, Answer::empty(403), ClientSecret),
        (INTROSPECTION, error(401, "invalid_client"), ClientSecret),
        // RFC 7662 section 2.3, whatever the code is.
        (INTROSPECTION, error(401, "invalid_request"), ClientSecret),
        (INTROSPECTION, error(401, "not_authorized"), ClientSecret),
        (INTROSPECTION, Answer::empty(404), Other),
        (TOKEN, Answer::json(400, of_oidc_provider), PasswordLogin),
        (DISCOVERY, Answer::empty(404), Other),
        (TOKEN, error(400, "unauthorized_client"), PasswordLogin),
        (TOKEN, error(400, "unsupported_grant_type"), PasswordLogin),
    ] {
        let upstream: ScriptedUpstream = healthy().await;
        upstream
            .on(INTROSPECTION, inactive())
            .on(path, answer.clone());
        let probed = adapter(&upstream).probe().await;
        assert_eq!(misconfigured(&probed), Some(expected), "{path} {answer:?}");
    }
}

#[tokio::test]
async fn probe_of_a_logout_finds_a_revocation_endpoint_that_is_certainly_none() {
    let page = || Answer::html(404);
    let credentials = Some("wrong client credentials");
    let grant_type = Some("unsupported_grant_type");
    let introspection = Some("the response of an introspection endpoint");
    let as_missing_404 = Some("status 404, as for a path that does not exist");
    let as_missing_200 = Some("status 200, as for a path that does not exist");
    let message = |text: &str| Answer::json(404, json!({"message": text}));
    for (answer, missing, found) in [
        (Answer::empty(200), page(), None),
        (Answer::empty(204), page(), None),
        (Answer::json(200, json!({})), page(), None),
        // A server that refuses an unknown token, in spite of RFC 7009 section 2.2.
        (error(400, "invalid_grant"), page(), None),
        (error(401, "invalid_token"), page(), None),
        (error(404, "not_found"), error(404, "not_found"), None),
        (Answer::empty(404), page(), None),
        (message("no such token"), message("no route"), None),
        (page(), Answer::reset(), None),
        (Answer::empty(500), page(), None),
        (error(401, "invalid_client"), page(), credentials),
        (error(400, "unsupported_grant_type"), page(), grant_type),
        (Answer::empty(405), page(), Some("status 405")),
        (inactive(), page(), introspection),
        (page(), page(), as_missing_404),
        (Answer::html(200), Answer::html(200), as_missing_200),
        (Answer::reset(), page(), Some("cannot be reached")),
    ] {
        let upstream = healthy().await;
        let oauth2 = adapter(&upstream);
        upstream
            .on(REVOCATION, answer.clone())
            .on("/iam/xxxxxx", missing.clone());
        let probed = oauth2.probe_logout().await;
        let answers = format!("{answer:?} {missing:?} {probed:?}");
        match found {
            None => assert_eq!(probed, Ok(()), "{answers}"),
            Some(found) => {
                let fault = probed.expect_err(&answers).to_string();
                assert!(fault.contains(found), "{answers}: {fault}");
                assert!(fault.contains("check revocation_endpoint"), "{fault}");
            }
        }
    }
}

#[tokio::test]
async fn probe_of_a_logout_calls_no_server_without_revocation() {
    let upstream = healthy().await;
    let oauth2 = adapter_with(&upstream, &json!({"revocation_endpoint": "none"}));
    assert_eq!(oauth2.probe_logout().await, Ok(()));
    assert!(upstream.requests_to(REVOCATION).is_empty());
}
