//! Responses of Keycloak over HTTP: no login succeeds, and no session is reported as active or ended,
//! unless a response states it.

#![no_main]

use auth_gateway_fuzz::upstream::{Answer, Upstream};
use auth_gateway_fuzz::{CANARY, claims, is_scope_name};
use iam_adapters::OAuth2ClientSettings;
use iam_adapters::claims::CLAIMS_BYTES_MAX;
use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{
    Claims, ClientContext, Credentials, IamAdapter, IamError, Introspection, Subject,
    UpstreamSession,
};
use libfuzzer_sys::fuzz_target;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const ISSUER: &str = "https://iam.test/realms/shop";
const CLIENT: &str = "auth-gateway";

/// The separator of two responses.
const NEXT: u8 = 0x1e;

struct Fixture {
    runtime: Runtime,
    upstream: Upstream,
    iam: Arc<dyn IamAdapter>,
    credentials: Credentials,
    session: UpstreamSession,
}

impl Fixture {
    fn new() -> Self {
        let upstream = Upstream::start();
        let settings = KeycloakSettings {
            url: upstream.url().parse().expect("a URL"),
            realm: "shop".to_owned(),
            client: OAuth2ClientSettings {
                client_id: CLIENT.to_owned(),
                client_secret: Some("a-client-secret".into()),
                claims: serde_json::from_value(json!({
                    "text": {"member": "scope"},
                    "integer": {"member": "/realm_access/level", "type": "integer"},
                    "boolean": {"member": "/realm_access/verified", "type": "boolean"},
                    "texts": {"member": "/realm_access/roles", "type": "list_of_texts"},
                }))
                .expect("claims"),
                ..OAuth2ClientSettings::default()
            },
            permissions_client: Some("shop-api".to_owned()),
            issuer: Some(ISSUER.to_owned()),
        };
        let credentials = Credentials::new("alice@example.test".to_owned(), "alice-pass".into());
        let session = UpstreamSession {
            subject: Subject::new("subject").expect("an id"),
            id: "session".to_owned(),
            // {"sub":"subject","sid":"session","azp":"auth-gateway"}
            secret:
                "e30.eyJzdWIiOiJzdWJqZWN0Iiwic2lkIjoic2Vzc2lvbiIsImF6cCI6ImF1dGgtZ2F0ZXdheSJ9.e30"
                    .into(),
        };
        let clock = Arc::new(SystemClock::default());
        Self {
            runtime: Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            iam: settings
                .connect("iam.keycloak", clock, Duration::from_secs(5), None)
                .expect("an adapter"),
            upstream,
            credentials: credentials.expect("credentials"),
            session,
        }
    }
}

// An operation; then responses, each a status and a body. All inputs use one adapter, so the checks must
// hold in every state of the adapter.
fuzz_target!(|input: &[u8]| {
    thread_local!(static FIXTURE: Fixture = Fixture::new());
    let Some((operation, script)) = input.split_first() else {
        return;
    };
    let answers: Vec<_> = script
        .split(|byte| *byte == NEXT)
        .map(|answer| {
            let (status, body) = answer.split_first().unwrap_or((&0, &[]));
            let statuses = [200, 204, 301, 400, 401, 403, 404, 429, 500, 503];
            (
                statuses[usize::from(*status) % statuses.len()],
                body.to_vec(),
            )
        })
        .collect();
    FIXTURE.with(|fixture| {
        fixture.upstream.answer(answers.clone());
        let Some(bodies) = read(&answers) else {
            return;
        };
        let fault = fixture.runtime.block_on(async {
            match operation % 4 {
                0 => log_in(fixture, &bodies).await,
                1 => introspect(fixture, &bodies).await,
                2 => fixture.iam.end_session(&fixture.session).await.err(),
                _ => fixture.iam.probe().await.err(),
            }
        });
        if let Some(fault) = fault {
            // Error codes are shown.
            let codes = bodies.iter().filter_map(|body| body.get("error")?.as_str());
            let shown = codes.fold(format!("{fault} {fault:?}"), |shown, code| {
                shown.replace(code, "")
            });
            assert!(
                !shown.contains(CANARY) && !shown.contains("kept-from"),
                "{shown}"
            );
            if let IamError::Refused(_) = fault {
                assert!(operation % 4 == 0 && contains(&bodies, "error", &"invalid_grant".into()));
            }
        }
    });
});

/// The responses as another JSON parser reads them; `None` if it fails at something that the adapter
/// ignores, such as half a surrogate pair.
fn read(answers: &[Answer]) -> Option<Vec<Value>> {
    let mut bodies = Vec::new();
    for (_, body) in answers {
        match serde_json::from_slice(body) {
            Ok(value) => bodies.push(value),
            Err(_) if body.contains(&b'{') && std::str::from_utf8(body).is_ok() => return None,
            Err(_) => {}
        }
    }
    Some(bodies)
}

fn contains(bodies: &[Value], name: &str, value: &Value) -> bool {
    bodies.iter().any(|body| body.get(name) == Some(value))
}

async fn log_in(fixture: &Fixture, bodies: &[Value]) -> Option<IamError> {
    let client = ClientContext::default();
    let login = match fixture
        .iam
        .authenticate(&fixture.credentials, &client)
        .await
    {
        Ok(login) => login,
        Err(error) => return Some(error),
    };
    let token = login.session.secret.expose_secret();
    assert!(contains(bodies, "refresh_token", &token.into()));
    let claims = claims(token).expect("a refresh token");
    assert_eq!(claims["sub"], login.session.subject.as_str());
    assert_eq!(claims["sid"], login.session.id.as_str());
    assert_eq!(claims["azp"], CLIENT);
    None
}

async fn introspect(fixture: &Fixture, bodies: &[Value]) -> Option<IamError> {
    match fixture.iam.introspect(&fixture.session).await {
        Ok(Introspection::Active {
            subject,
            permissions,
            claims,
            ..
        }) => {
            assert_eq!(subject, fixture.session.subject);
            assert!(claims.as_members().len() <= CLAIMS_BYTES_MAX);
            assert_eq!(Claims::from_members(claims.as_members()), Some(claims));
            assert!(permissions.iter().all(|held| is_scope_name(held.as_str())));
            let active = bodies
                .iter()
                .find(|body| body.get("active") == Some(&true.into()));
            let active = active.expect("a response that reports it as active");
            assert_eq!(active["sub"], fixture.session.subject.as_str());
            assert_eq!(active["sid"], fixture.session.id.as_str());
            None
        }
        Ok(Introspection::Inactive) => {
            assert!(contains(bodies, "active", &false.into()));
            None
        }
        Err(error) => Some(error),
    }
}
