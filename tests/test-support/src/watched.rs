//! Gateways before one scripted Keycloak that write all they can, and everything that ever came
//! out of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::canary::Canary;
use crate::endpoints::{BACKCHANNEL_LOGOUT, LOGIN, TOKEN};
use crate::program::{Executable, Program};
use crate::scripted_upstream::keycloak::{INTROSPECTION, SUBJECT, grant, inactive};
use crate::scripted_upstream::{Answer, ScriptedUpstream};
use crate::wait::until_ok_blocking;
use crate::wire::{self, Connection, get, post};

/// The password of the user.
pub const PASSWORD: &str = "canary/pass+word of alice";
/// A password that the IAM refuses.
pub const WRONG: &str = "canary wrong password";
/// The e-mail address of the user.
pub const EMAIL: &str = "canary.alice@example.test";
/// The gateway's secret at the IAM.
pub const CLIENT_SECRET: &str = "canary-client-secret-0123";
/// The access token that the IAM issues.
pub const UPSTREAM_ACCESS: &str = "canary-upstream-access-token";
/// The description in the error responses of the IAM.
pub const UPSTREAM_TEXT: &str = "canary: what the IAM freely writes";

/// What a client may have written, and has to be found wherever secrets are looked for: a request's
/// id of its own choice.
const CONTROL: &str = "canary-that-may-be-seen-0123";

/// Gateways before one scripted Keycloak, and all output of them.
pub struct Watched {
    /// The IAM.
    pub keycloak: ScriptedUpstream,
    /// The gateways.
    pub replicas: Vec<Program>,
    /// What no output may contain.
    pub canaries: Vec<Canary>,
    /// Bodies of errors, readiness, figures.
    said: Vec<String>,
    /// The ids of all requests.
    ids: Vec<String>,
    keys: TempDir,
}

/// A secret member of the one key in a folder.
fn private(folder: &Path, member: &str) -> String {
    let entry = fs::read_dir(folder)
        .expect("a folder")
        .next()
        .expect("a key");
    let text = fs::read(entry.expect("a file").path()).expect("a file");
    let key: Value = serde_json::from_slice(&text).expect("JSON");
    key[member].as_str().expect("a member").to_owned()
}

impl Watched {
    /// So many replicas of this gateway with more settings.
    pub async fn replicas(gateway: Executable, count: usize, more: &[(&str, &str)]) -> Self {
        let keycloak = ScriptedUpstream::keycloak().await;
        let keys = tempfile::tempdir().expect("a folder");
        let folders = ["signing", "sealing"].map(|purpose| {
            let folder = keys.path().join(purpose);
            let path = folder.to_str().expect("text").to_owned();
            let made = gateway.run(&["keys", "generate", "--use", purpose, "--dir", &path], &[]);
            assert_eq!(made.code, Some(0), "{made:?}");
            path
        });
        let [signing, sealing] = &folders;
        let grant = grant();
        let canaries = [
            ("the password", PASSWORD),
            ("a wrong password", WRONG),
            ("the e-mail address", EMAIL),
            ("the client secret", CLIENT_SECRET),
            ("the IAM's access token", UPSTREAM_ACCESS),
            ("the IAM's text", UPSTREAM_TEXT),
            ("the signing key", &private(Path::new(signing), "d")),
            ("the sealing key", &private(Path::new(sealing), "k")),
            (
                "the refresh token",
                grant["refresh_token"].as_str().expect("a token"),
            ),
        ]
        .map(|(what, secret)| Canary::new(what, secret))
        .to_vec();
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
        let settings = [&settings[..], more].concat();
        let mut replicas = Vec::new();
        for asked in 1..=count {
            // The first question of each is its probe's, about a made-up token.
            keycloak.once(INTROSPECTION, inactive());
            let mut replica = gateway.serve(&settings);
            replica.addresses();
            keycloak.received(INTROSPECTION, asked).await;
            replicas.push(replica);
        }
        let mut started = Self {
            keycloak,
            replicas,
            canaries,
            said: Vec::new(),
            ids: Vec::new(),
            keys,
        };
        // Before the test, which may exhaust the limits of the gateway.
        let control = format!("\r\nx-request-id: {CONTROL}\r\n");
        started.say(0, &get("/nowhere").replacen("\r\n", &control, 1), 404);
        started
    }

    /// The folder of the keys for a purpose.
    pub fn keys(&self, purpose: &str) -> PathBuf {
        self.keys.path().join(purpose)
    }

    /// From now on this must not be found.
    pub fn hides(&mut self, what: &'static str, secret: &str) {
        self.canaries.push(Canary::new(what, secret));
    }

    /// A connection to a replica.
    pub fn connect(&mut self, replica: usize) -> Connection<std::net::TcpStream> {
        Connection::to(self.replicas[replica].addresses().0)
    }

    /// Keeps what was said, to be looked through.
    pub fn heard(&mut self, answer: &wire::Answer) {
        self.ids
            .push(answer.header("x-request-id").expect("an id").to_owned());
        if answer.status >= 400 {
            self.said.push(format!("{answer:?}"));
        }
    }

    /// Keeps more that came out.
    pub fn heard_text(&mut self, text: String) {
        self.said.push(text);
    }

    /// Sends a request to a replica and expects this status.
    pub fn say(&mut self, replica: usize, request: &str, status: u16) -> wire::Answer {
        let answer = self.connect(replica).send(request).answer();
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        self.heard(&answer);
        answer
    }

    /// Posts JSON to a replica, expects this status and returns the body.
    pub fn ask(&mut self, replica: usize, path: &str, body: &Value, status: u16) -> Value {
        self.say(replica, &post(path, &body.to_string()), status)
            .json()
    }

    /// Logs the user in at the first replica.
    pub fn log_in(&mut self, password: &str, status: u16) -> Value {
        let login = json!({"email": EMAIL, "password": password});
        let session = self.ask(0, LOGIN, &login, status);
        if let Some(token) = session["session_token"].as_str() {
            self.hides("a session token", token);
        }
        session
    }

    /// Exchanges a session at a replica.
    pub fn exchange(&mut self, replica: usize, session: &Value, status: u16) {
        let scope = "urn:shop:orders:order:read";
        let mut body = session.clone();
        body["grant_type"] = json!("session");
        body["scope"] = json!(scope);
        let answer = self.ask(replica, TOKEN, &body, status);
        if let Some(token) = answer["access_token"].as_str() {
            self.hides("an access token", token);
        }
    }

    /// Tells a replica of a logout. Whatever the token is, nobody gets to see a part of it.
    pub fn tell_logout(&mut self, replica: usize, token: &str, status: u16) {
        for part in token.split('.').skip(1).filter(|part| part.len() >= 12) {
            self.hides("a part of a logout token", part);
        }
        let form = format!("logout_token={token}");
        self.say(replica, &logout_form(BACKCHANNEL_LOGOUT, &form), status);
    }

    /// Every kind of fault, for whatever asks at this path.
    pub fn faults() -> [Answer; 7] {
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

    /// Readiness and figures of all; gives them as text.
    pub fn look_at_management(&mut self) -> String {
        let mut seen = String::new();
        for replica in &mut self.replicas {
            let (_, management) = replica.addresses();
            for path in ["/health/ready", "/metrics"] {
                let answer = Connection::to(management).send(get(path)).answer();
                seen += &answer.body;
                self.said.push(answer.body);
            }
        }
        seen
    }

    /// Waits until readiness and figures hold this.
    #[track_caller]
    pub fn tells(&mut self, wanted: &str) {
        until_ok_blocking(wanted, || {
            let seen = self.look_at_management();
            if seen.contains(wanted) {
                Ok(())
            } else {
                Err(seen)
            }
        });
    }

    /// Ends everything, and looks through all of it.
    pub fn end(mut self) -> String {
        self.look_at_management();
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
        // The same search finds what may be there: in the log, in errors, in readiness, in figures.
        let found = |what: &str, text: &str| Canary::new("the control", what).is_in(text);
        let said = self.said.join("\n");
        assert!(found(SUBJECT, &written), "whoever logged in is named");
        assert!(found(CONTROL, &written) && found(CONTROL, &said));
        assert!(found("auth_gateway_requests_total", &said), "{said}");
        assert!(found("\"last_result\":\"", &said), "{said}");
        written
    }
}

/// A form, posted.
pub fn logout_form(target: &str, form: &str) -> String {
    post(target, form).replace("application/json", "application/x-www-form-urlencoded")
}
