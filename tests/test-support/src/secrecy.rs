//! Gateways in front of one scripted IAM, with the most verbose log, and a search of all their
//! output for secrets.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::canary::Canary;
use crate::endpoints::{BACKCHANNEL_LOGOUT, LOGIN, TOKEN};
use crate::keys::TestKeys;
use crate::program::{Executable, Program};
use crate::scripted_upstream::keycloak::{KEYCLOAK, SUBJECT};
use crate::scripted_upstream::{Answer, ScriptedUpstream, WireProtocol};
use crate::wait::until_ok_blocking;
use crate::wire::{self, Connection, fetch, form, get, post, with_header};

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

/// A request id that a client chose. It is no secret: the search must find it in every output.
const CONTROL: &str = "canary-that-may-be-seen-0123";

/// Gateways in front of one scripted IAM, and all their output.
pub struct SecrecyFixture {
    /// The IAM.
    pub iam: ScriptedUpstream,
    /// Its kind.
    pub protocol: WireProtocol,
    /// The gateways.
    pub replicas: Vec<Program>,
    /// Secrets that no output may contain.
    pub canaries: Vec<Canary>,
    /// Error responses, readiness reports, metrics.
    responses: Vec<String>,
    /// The ids of all requests.
    ids: Vec<String>,
    keys: TestKeys,
}

/// A private member of the only key in a folder.
fn private(folder: &Path, member: &str) -> String {
    let entry = fs::read_dir(folder)
        .expect("a folder")
        .next()
        .expect("a key");
    let text = fs::read(entry.expect("a file").path()).expect("a file");
    let key: Value = serde_json::from_slice(&text).expect("JSON");
    key[member].as_str().expect("a member").to_owned()
}

impl SecrecyFixture {
    /// Starts replicas of this gateway with more settings, in front of a Keycloak.
    pub async fn start(gateway: Executable, count: usize, more: &[(&str, &str)]) -> Self {
        Self::over(&KEYCLOAK, gateway, count, more).await
    }

    /// Starts replicas of this gateway with more settings, in front of an IAM of this kind.
    pub async fn over(
        protocol: &WireProtocol,
        gateway: Executable,
        count: usize,
        more: &[(&str, &str)],
    ) -> Self {
        let iam = ScriptedUpstream::of(protocol).await;
        let keys = TestKeys::new();
        let grant = (protocol.grant)();
        let mut tokens = ["refresh_token", "session_token"].into_iter();
        let token = tokens.find_map(|member| grant[member].as_str());
        let token = token.expect("a token");
        let canaries = [
            ("the password", PASSWORD),
            ("a wrong password", WRONG),
            ("the e-mail address", EMAIL),
            ("the client secret", CLIENT_SECRET),
            ("the IAM's access token", UPSTREAM_ACCESS),
            ("the IAM's text", UPSTREAM_TEXT),
            ("the signing key", &private(&keys.folder("signing"), "d")),
            ("the sealing key", &private(&keys.folder("sealing"), "k")),
            ("the token of the IAM's session", token),
        ]
        .map(|(what, secret)| Canary::new(what, secret))
        .to_vec();
        let of_iam = (protocol.settings)(&iam.url(), CLIENT_SECRET);
        let of_iam = of_iam.iter().map(|(name, value)| (*name, value.as_str()));
        let settings = [
            &of_iam.collect::<Vec<_>>()[..],
            &keys.settings(),
            &[("upstream.probe_interval", "1h"), ("log.filter", "trace")],
            more,
        ]
        .concat();
        let mut replicas = Vec::new();
        for probes in 1..=count {
            // The first call of each is that of its probe, at most OAuth servers for a made-up token.
            let (path, answer) = (protocol.probe)();
            iam.once(path, answer);
            let mut replica = gateway.serve(&settings);
            replica.addresses();
            iam.received(path, probes).await;
            replicas.push(replica);
        }
        let mut fixture = Self {
            iam,
            protocol: *protocol,
            replicas,
            canaries,
            responses: Vec::new(),
            ids: Vec::new(),
            keys,
        };
        // Before the test, which may exhaust the limits of the gateway.
        let control = with_header(&format!("x-request-id: {CONTROL}"), &get("/nowhere"));
        fixture.send(0, &control, 404);
        fixture
    }

    /// The key folder for a purpose, `signing` or `sealing`.
    pub fn key_folder(&self, purpose: &str) -> PathBuf {
        self.keys.folder(purpose)
    }

    /// Adds a secret that no output may contain.
    pub fn add_secret(&mut self, what: &'static str, secret: &str) {
        self.canaries.push(Canary::new(what, secret));
    }

    /// A connection to a replica.
    pub fn connect(&mut self, replica: usize) -> Connection<std::net::TcpStream> {
        Connection::to(self.replicas[replica].addresses().0)
    }

    /// Adds a response to the searched output.
    pub fn record(&mut self, answer: &wire::Answer) {
        self.ids
            .push(answer.header("x-request-id").expect("an id").to_owned());
        if answer.status >= 400 {
            self.responses.push(format!("{answer:?}"));
        }
    }

    /// Adds text to the searched output.
    pub fn record_text(&mut self, text: String) {
        self.responses.push(text);
    }

    /// Sends a request to a replica and expects this status.
    pub fn send(&mut self, replica: usize, request: &str, status: u16) -> wire::Answer {
        let answer = self.connect(replica).send(request).answer();
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        self.record(&answer);
        answer
    }

    /// Posts JSON to a replica, expects this status and returns the body.
    pub fn post_json(&mut self, replica: usize, path: &str, body: &Value, status: u16) -> Value {
        self.send(replica, &post(path, &body.to_string()), status)
            .json()
    }

    /// Logs the user in at the first replica.
    pub fn log_in(&mut self, password: &str, status: u16) -> Value {
        let login = json!({"email": EMAIL, "password": password});
        let session = self.post_json(0, LOGIN, &login, status);
        if let Some(token) = session["session_token"].as_str() {
            self.add_secret("a session token", token);
        }
        session
    }

    /// Exchanges a session at a replica.
    pub fn exchange(&mut self, replica: usize, session: &Value, status: u16) {
        let scope = "urn:shop:orders:order:read";
        let mut body = session.clone();
        body["grant_type"] = json!("session");
        body["scope"] = json!(scope);
        let answer = self.post_json(replica, TOKEN, &body, status);
        if let Some(token) = answer["access_token"].as_str() {
            self.add_secret("an access token", token);
        }
    }

    /// Sends a logout token to a replica. Each of its parts is a secret.
    pub fn send_logout_token(&mut self, replica: usize, token: &str, status: u16) {
        for part in token.split('.').skip(1).filter(|part| part.len() >= 12) {
            self.add_secret("a part of a logout token", part);
        }
        let request = form(BACKCHANNEL_LOGOUT, &format!("logout_token={token}"));
        self.send(replica, &request, status);
    }

    /// From now on the IAM works.
    pub fn recovers(&self) {
        (self.protocol.works)(&self.iam);
    }

    /// Every kind of fault of an IAM.
    pub fn faults() -> [Answer; 7] {
        let refusal = json!({"error": "invalid_scope", "error_description": UPSTREAM_TEXT});
        [
            Answer::empty(503),
            Answer::html(200),
            Answer::reset(),
            Answer::redirect(302, "http://127.0.0.1:1/"),
            Answer::json(400, refusal),
            Answer::text(500, "text/plain", UPSTREAM_TEXT),
            Answer::json(
                200,
                json!({"active": UPSTREAM_TEXT, "access_token": [UPSTREAM_ACCESS]}),
            ),
        ]
    }

    /// Reads readiness and metrics of all replicas.
    pub fn read_management(&mut self) -> String {
        let mut seen = String::new();
        for replica in &mut self.replicas {
            let (_, management) = replica.addresses();
            for path in ["/", "/health/ready", "/metrics"] {
                let answer = fetch(management, get(path));
                seen += &answer.body;
                self.responses.push(answer.body);
            }
        }
        seen
    }

    /// Waits until readiness or metrics contain this.
    #[track_caller]
    pub fn wait_for(&mut self, wanted: &str) {
        until_ok_blocking(wanted, || {
            let seen = self.read_management();
            if seen.contains(wanted) {
                Ok(())
            } else {
                Err(seen)
            }
        });
    }

    /// Stops the replicas and searches all output. Returns what they wrote.
    pub fn end(mut self) -> String {
        self.read_management();
        let mut written = String::new();
        for replica in self.replicas {
            let ended = replica.stop();
            // Every line is JSON, also those of dependencies.
            ended.log();
            written += &ended.everything();
        }
        for canary in &self.canaries {
            for text in written
                .lines()
                .chain(self.responses.iter().map(String::as_str))
            {
                assert!(!canary.is_in(text), "{}: {text}", canary.what);
            }
        }
        for id in &self.ids {
            assert!(written.contains(&format!(r#""request_id":"{id}""#)), "{id}");
        }
        // The control: the same search finds text in the log, errors, readiness and metrics.
        let found = |what: &str, text: &str| Canary::new("the control", what).is_in(text);
        let responses = self.responses.join("\n");
        assert!(found(SUBJECT, &written), "the log names the user");
        assert!(found(CONTROL, &written) && found(CONTROL, &responses));
        assert!(
            found("auth_gateway_requests_total", &responses),
            "{responses}"
        );
        assert!(found("\"last_result\":\"", &responses), "{responses}");
        written
    }
}
