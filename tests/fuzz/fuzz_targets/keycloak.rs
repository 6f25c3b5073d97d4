//! What Keycloak answers, over HTTP: nobody is let in, and no session is called alive or ended, but
//! by an answer that says so.

#![no_main]

use auth_gateway_fuzz::upstream::{Answer, Upstream};
use auth_gateway_fuzz::{CANARY, claims, is_scope_name};
use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::{Keycloak, KeycloakSettings};
use iam_adapters::{
    ClientContext, Credentials, IamAdapter as _, IamError, Introspection, Subject, UpstreamSession,
};
use libfuzzer_sys::fuzz_target;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const ISSUER: &str = "https://iam.test/realms/shop";
const CLIENT: &str = "auth-gateway";

/// Between two answers.
const NEXT: u8 = 0x1e;

struct Scene {
    runtime: Runtime,
    upstream: Upstream,
    iam: Keycloak,
    credentials: Credentials,
    session: UpstreamSession,
}

impl Scene {
    fn new() -> Self {
        let upstream = Upstream::start();
        let settings = KeycloakSettings {
            url: upstream.url().parse().expect("a URL"),
            realm: "shop".to_owned(),
            client_id: CLIENT.to_owned(),
            client_secret: Some("kept-from-everybody".into()),
            client_secret_file: None,
            permissions_client: Some("shop-api".to_owned()),
            ca_file: None,
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
            iam: Keycloak::new(&settings, Duration::from_secs(5), clock).expect("an adapter"),
            upstream,
            credentials: credentials.expect("credentials"),
            session,
        }
    }
}

// An operation; then answers, each a status and a body. The adapter lives on from input to input,
// so that whatever it has taken for proven, nothing here may break.
fuzz_target!(|input: &[u8]| {
    thread_local!(static SCENE: Scene = Scene::new());
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
    SCENE.with(|scene| {
        scene.upstream.answer(answers.clone());
        let Some(said) = read(&answers) else {
            return;
        };
        let fault = scene.runtime.block_on(async {
            match operation % 4 {
                0 => logs_in(scene, &said).await,
                1 => introspects(scene, &said).await,
                2 => scene.iam.end_session(&scene.session).await.err(),
                _ => scene.iam.probe().await.err(),
            }
        });
        if let Some(fault) = fault {
            let shown = format!("{fault} {fault:?}");
            assert!(
                !shown.contains(CANARY) && !shown.contains("kept-from"),
                "{shown}"
            );
            if let IamError::Refused(_) = fault {
                assert!(operation % 4 == 0 && says(&said, "error", &"invalid_grant".into()));
            }
        }
    });
});

/// What another reader of JSON makes of the answers; none where it stumbles over something, such as
/// half a surrogate pair, that the adapter has no need to look at.
fn read(answers: &[Answer]) -> Option<Vec<Value>> {
    let mut said = Vec::new();
    for (_, body) in answers {
        match serde_json::from_slice(body) {
            Ok(value) => said.push(value),
            Err(_) if body.contains(&b'{') && std::str::from_utf8(body).is_ok() => return None,
            Err(_) => {}
        }
    }
    Some(said)
}

fn says(said: &[Value], name: &str, value: &Value) -> bool {
    said.iter().any(|said| said.get(name) == Some(value))
}

async fn logs_in(scene: &Scene, said: &[Value]) -> Option<IamError> {
    let client = ClientContext::default();
    let login = match scene.iam.authenticate(&scene.credentials, &client).await {
        Ok(login) => login,
        Err(error) => return Some(error),
    };
    let token = login.session.secret.expose_secret();
    assert!(says(said, "refresh_token", &token.into()));
    let claims = claims(token).expect("a refresh token");
    assert_eq!(claims["sub"], login.session.subject.as_str());
    assert_eq!(claims["sid"], login.session.id.as_str());
    assert_eq!(claims["azp"], CLIENT);
    None
}

async fn introspects(scene: &Scene, said: &[Value]) -> Option<IamError> {
    match scene.iam.introspect(&scene.session).await {
        Ok(Introspection::Active {
            subject,
            permissions,
        }) => {
            assert_eq!(subject, scene.session.subject);
            assert!(permissions.iter().all(|held| is_scope_name(held.as_str())));
            let alive = said
                .iter()
                .find(|said| said.get("active") == Some(&true.into()));
            let alive = alive.expect("a word that it is alive");
            assert_eq!(alive["sub"], scene.session.subject.as_str());
            assert_eq!(alive["sid"], scene.session.id.as_str());
            None
        }
        Ok(Introspection::Inactive) => {
            assert!(says(said, "active", &false.into()));
            None
        }
        Err(error) => Some(error),
    }
}
