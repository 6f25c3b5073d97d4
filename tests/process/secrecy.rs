//! Nothing secret is ever written, at any level, by us or by what we build on.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::canary::Canary;
use crate::program::{Program, run};
use crate::scripted_upstream::keycloak::{
    INTROSPECTION, LOGOUT as END, TOKEN as GRANT, grant, inactive,
};
use crate::scripted_upstream::{Answer, ScriptedUpstream};
use crate::wire::{Connection, LOGIN, LOGOUT, TOKEN, get, post};

const PASSWORD: &str = "canary/pass+word of alice";
const WRONG: &str = "canary wrong password";
const EMAIL: &str = "canary.alice@example.test";
const CLIENT_SECRET: &str = "canary-client-secret-0123";
const UPSTREAM_ACCESS: &str = "canary-upstream-access-token";
const UPSTREAM_TEXT: &str = "canary: what the IAM freely writes";

/// Two replicas before one Keycloak, and everything that ever came out of them.
struct Scene {
    keycloak: ScriptedUpstream,
    replicas: Vec<Program>,
    canaries: Vec<Canary>,
    /// Bodies of errors, readiness, figures.
    said: Vec<String>,
    /// The ids of all requests.
    ids: Vec<String>,
    _keys: TempDir,
}

fn private(folder: &Path, member: &str) -> String {
    let entry = fs::read_dir(folder)
        .expect("a folder")
        .next()
        .expect("a key");
    let text = fs::read(entry.expect("a file").path()).expect("a file");
    let key: Value = serde_json::from_slice(&text).expect("JSON");
    key[member].as_str().expect("a member").to_owned()
}

impl Scene {
    async fn new() -> Self {
        let keycloak = ScriptedUpstream::keycloak().await;
        let keys = tempfile::tempdir().expect("a folder");
        let folders = ["signing", "sealing"].map(|purpose| {
            let folder = keys.path().join(purpose);
            let path = folder.to_str().expect("text").to_owned();
            let made = run(&["keys", "generate", "--use", purpose, "--dir", &path], &[]);
            assert_eq!(made.code, Some(0), "{made:?}");
            path
        });
        let [signing, sealing] = &folders;
        let mut canaries = [
            ("the password", PASSWORD),
            ("a wrong password", WRONG),
            ("the e-mail address", EMAIL),
            ("the client secret", CLIENT_SECRET),
            ("the IAM's access token", UPSTREAM_ACCESS),
            ("the IAM's text", UPSTREAM_TEXT),
            ("the signing key", &private(Path::new(signing), "d")),
            ("the sealing key", &private(Path::new(sealing), "k")),
        ]
        .map(|(what, secret)| Canary::new(what, secret))
        .to_vec();
        let grant = grant();
        let refresh_token = grant["refresh_token"].as_str().expect("a token");
        canaries.push(Canary::new("the refresh token", refresh_token));
        let url = keycloak.url();
        let settings = [
            ("IAM__KEYCLOAK__URL", url.as_str()),
            ("IAM__KEYCLOAK__REALM", "shop"),
            ("IAM__KEYCLOAK__CLIENT_ID", "auth-gateway"),
            ("IAM__KEYCLOAK__CLIENT_SECRET", CLIENT_SECRET),
            ("IAM__KEYCLOAK__PERMISSIONS_CLIENT", "shop-api"),
            ("KEYS__SIGNING_DIR", signing),
            ("KEYS__SEALING_DIR", sealing),
            ("UPSTREAM__PROBE_INTERVAL", "1h"),
            ("LOG__FILTER", "trace"),
        ];
        let mut replicas = Vec::new();
        for asked in 1..=2 {
            // The first question of each is its probe's, about a made-up token.
            keycloak.once(INTROSPECTION, inactive());
            let mut replica = Program::serve(&settings);
            replica.addresses();
            keycloak.received(INTROSPECTION, asked).await;
            replicas.push(replica);
        }
        Self {
            keycloak,
            replicas,
            canaries,
            said: Vec::new(),
            ids: Vec::new(),
            _keys: keys,
        }
    }

    fn ask(&mut self, replica: usize, path: &str, body: &Value, status: u16) -> Value {
        let (public, _) = self.replicas[replica].addresses();
        let answer = Connection::to(public)
            .send(post(path, &body.to_string()))
            .answer();
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        self.ids
            .push(answer.header("x-request-id").expect("an id").to_owned());
        if status >= 400 {
            self.said.push(format!("{answer:?}"));
        }
        answer.json()
    }

    fn log_in(&mut self, password: &str, status: u16) -> Value {
        let login = json!({"email": EMAIL, "password": password});
        let session = self.ask(0, LOGIN, &login, status);
        if let Some(token) = session["session_token"].as_str() {
            self.canaries.push(Canary::new("a session token", token));
        }
        session
    }

    fn exchange(&mut self, replica: usize, session: &Value, status: u16) {
        let scope = "urn:shop:orders:order:read";
        let mut body = session.clone();
        body["grant_type"] = json!("session");
        body["scope"] = json!(scope);
        let answer = self.ask(replica, TOKEN, &body, status);
        if let Some(token) = answer["access_token"].as_str() {
            self.canaries.push(Canary::new("an access token", token));
        }
    }

    /// Every kind of fault, for whatever asks at this path.
    fn faults() -> [Answer; 7] {
        let told = json!({"error": "invalid_scope", "error_description": UPSTREAM_TEXT});
        [
            Answer::empty(503),
            Answer::html(200),
            Answer::reset(),
            Answer::redirect(302, "http://127.0.0.1:1/"),
            Answer::json(400, told),
            Answer::text(500, "text/plain", UPSTREAM_TEXT),
            Answer::json(
                200,
                json!({"active": UPSTREAM_TEXT, "access_token": [UPSTREAM_ACCESS]}),
            ),
        ]
    }

    fn look_at_management(&mut self) {
        for replica in &mut self.replicas {
            let (_, management) = replica.addresses();
            for path in ["/health/ready", "/metrics"] {
                let answer = Connection::to(management).send(get(path)).answer();
                self.said.push(answer.body);
            }
        }
    }

    /// Ends everything, and looks through all of it.
    fn end(self) -> String {
        let mut written = String::new();
        for replica in self.replicas {
            replica.signal("TERM");
            let ended = replica.wait();
            assert_eq!(ended.code, Some(0));
            // Every line is whole and JSON, also of those that dependencies write.
            ended.log();
            written += &ended.everything();
        }
        for canary in &self.canaries {
            for text in written.lines().chain(self.said.iter().map(String::as_str)) {
                assert!(!canary.is_in(text), "{}: {text}", canary.what);
            }
        }
        for id in &self.ids {
            assert!(written.contains(&format!(r#""request_id":"{id}""#)), "{id}");
        }
        written
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_finest_level_no_line_no_error_and_no_figure_holds_a_secret() {
    let mut scene = Scene::new().await;
    let mut granted = grant();
    granted["access_token"] = json!(UPSTREAM_ACCESS);
    scene.keycloak.on(GRANT, Answer::json(200, granted));
    let session = scene.log_in(PASSWORD, 200);
    let refused =
        json!({"error": "invalid_grant", "error_description": "Invalid user credentials"});
    scene.keycloak.once(GRANT, Answer::json(401, refused));
    scene.log_in(WRONG, 401);
    // From the cache, then by asking.
    scene.exchange(0, &session, 200);
    scene.exchange(1, &session, 200);

    let mut broken = session.clone();
    let token = session["session_token"].as_str().expect("a token");
    broken["session_token"] = json!(token[..token.len() - 1]);
    scene.exchange(0, &broken, 401);
    scene.ask(0, TOKEN, &session, 400);
    scene.ask(0, LOGOUT, &broken, 400);
    scene.ask(
        0,
        &format!("{LOGIN}?password=canary%20wrong%20password"),
        &session,
        400,
    );

    let other = scene.log_in(PASSWORD, 200);
    for fault in Scene::faults() {
        scene.keycloak.on(GRANT, fault.clone()).on(END, fault);
        scene.log_in(PASSWORD, 500);
        scene.ask(1, LOGOUT, &other, 500);
        scene.look_at_management();
        scene.keycloak.in_good_health();
    }
    scene.ask(0, LOGOUT, &session, 200);
    scene.exchange(0, &session, 401);
    scene.look_at_management();
    let written = scene.end();

    // It was the finest level, and dependencies had their say.
    for target in [
        "auth_gateway::request",
        "actix_http",
        "hyper",
        "reqwest",
        "mio",
    ] {
        let said = format!(r#""level":"TRACE","target":"{target}"#);
        let said_more = format!(r#""level":"DEBUG","target":"{target}"#);
        let request = format!(r#""level":"INFO","target":"{target}"#);
        let heard = [said, said_more, request];
        assert!(heard.iter().any(|line| written.contains(line)), "{target}");
    }
}
