//! The mock IAM as a process, and the gateway as another, with one configuration.

use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::canary::Canary;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::files::write_private;
use test_support::program::Program;
use test_support::wire::{ALICE, Connection, bare, fetch, form, get, pair, post};

use crate::GATEWAY;

const SECRET: &str = "canary-of-the-client-secret";
const PASSWORD: &str = "canary-of-the-password";

/// The last line of the start screen without a configuration.
const LAST: &str = "client_secret = ";

fn listening(program: &mut Program) -> SocketAddr {
    let line = program.logged("listening");
    let address = line["http.address"].as_str().expect("an address");
    address.parse().expect("an address")
}

/// Two ports that were free a moment ago, because each program needs the other's address.
fn free_ports() -> [u16; 2] {
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    held.map(|port| port.local_addr().expect("an address").port())
}

/// A configuration as an operator writes it.
fn configuration(folder: &Path) -> (String, [u16; 2]) {
    let ports = free_ports();
    let [gateway, iam] = ports;
    let secret = folder.join("client-secret");
    write_private(&secret, SECRET);
    let text = format!(
        r#"
        [http]
        listen = "127.0.0.1:{gateway}"
        public_url = "http://127.0.0.1:{gateway}"
        [management]
        listen = "127.0.0.1:0"
        [session]
        freshness = "1h"
        [permissions]
        ttl = "1h"
        [log]
        filter = "debug"
        [iam.keycloak]
        url = "http://127.0.0.1:{iam}"
        realm = "shop"
        client_id = "auth-gateway"
        client_secret_file = "{}"
        permissions_client = "shop-api"
        "#,
        secret.display()
    );
    let file = folder.join("gateway.toml");
    fs::write(&file, text).expect("written");
    (file.to_str().expect("text").to_owned(), ports)
}

fn users(folder: &Path) -> String {
    let text = format!(
        r#"
        [[users]]
        email = "alice@example.test"
        password = "{PASSWORD}"
        permissions = ["urn:shop:orders:order:read"]
        "#
    );
    let file = folder.join("users.toml");
    fs::write(&file, text).expect("written");
    file.to_str().expect("text").to_owned()
}

fn log_in(gateway: SocketAddr) -> Value {
    let credentials = json!({"email": "alice@example.test", "password": PASSWORD});
    let answer = fetch(gateway, post(LOGIN, &credentials.to_string()));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn with_session(gateway: SocketAddr, path: &str, session: &Value) -> (u16, Value) {
    let mut body = pair(session);
    body["grant_type"] = json!("session");
    body["scope"] = json!("urn:shop:orders:order:read");
    let answer = fetch(gateway, post(path, &body.to_string()));
    (answer.status, answer.json())
}

#[test]
fn the_gateway_and_the_mock_run_with_one_configuration_and_write_no_secret() {
    let folder = TempDir::new().expect("a folder");
    let (config, [port, iam_port]) = configuration(folder.path());
    let users = users(folder.path());
    let arguments = ["mock-iam", "--config", &config, "--users-file", &users];
    let mut iam = GATEWAY.spawn(&arguments, &[]);
    let address = listening(&mut iam);
    assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], iam_port)));
    let screen = iam.wait_for_stderr("auth-gateway --config");
    assert!(
        screen.contains(&format!("http://127.0.0.1:{iam_port}/realms/shop")),
        "{screen}"
    );
    let mut program = GATEWAY.spawn(&["--config", &config], &[]);
    let (gateway, _) = program.addresses();
    assert_eq!(gateway.port(), port);

    let (session, other) = (log_in(gateway), log_in(gateway));
    let (status, token) = with_session(gateway, TOKEN, &session);
    assert_eq!(
        (status, &token["scope"]),
        (200, &json!("urn:shop:orders:order:read"))
    );
    let (status, _) = with_session(gateway, LOGOUT, &session);
    assert_eq!(status, 200);
    assert_eq!(with_session(gateway, TOKEN, &session).0, 401);
    // The mock has sent a logout token in the meantime, which has no effect here.
    iam.logged("request handled");
    assert_eq!(with_session(gateway, TOKEN, &other).0, 200);
    let ending = fetch(address, bare("DELETE", "/mock/v1/sessions?notify=true"));
    assert_eq!(ending.json(), json!({"ended": 1, "notified": 1}));
    // The cached data would be fresh for an hour.
    assert_eq!(with_session(gateway, TOKEN, &other).0, 401);
    let journal = fetch(address, get("/mock/v1/journal?operation=login")).json();
    assert_eq!(journal["count"], 2, "{journal}");
    assert_eq!(journal["entries"][0]["client_address"], "127.0.0.1");

    let (iam, gateway) = (iam.stop(), program.stop());
    let canaries = [("the client secret", SECRET), ("the password", PASSWORD)];
    for (what, secret) in canaries {
        let canary = Canary::new(what, secret);
        for ended in [&iam, &gateway] {
            assert!(!canary.is_in(&ended.everything()), "{what}: {ended:?}");
        }
    }
    assert!(!journal.to_string().contains("canary"), "{journal}");
    assert!(!iam.everything().contains("alice@"), "{iam:?}");
}

#[test]
fn without_a_receiver_no_logout_token_is_sent() {
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--backchannel-logout-url",
        "none",
    ];
    let mut iam = GATEWAY.spawn(&[&["mock-iam"], &arguments[..]].concat(), &[]);
    let address = listening(&mut iam);
    let screen = iam.wait_for_stderr("no tokens are sent");
    assert!(!screen.contains("backchannel"), "{screen}");
    let grant = "grant_type=password&client_id=auth-gateway&client_secret=mock-iam-development-secret\
                 &username=alice%40example.test&password=alice-pass&scope=openid";
    let token = "/realms/shop/protocol/openid-connect/token";
    let answer = fetch(address, form(token, grant));
    assert_eq!(answer.status, 200, "{answer:?}");
    let ending = fetch(address, bare("DELETE", "/mock/v1/sessions?notify=true"));
    assert_eq!(ending.json(), json!({"ended": 1, "notified": 0}));
    iam.stop();
}

#[test]
fn without_a_configuration_the_start_screen_contains_one_to_copy() {
    let mut iam = GATEWAY.spawn(&["mock-iam", "--listen", "127.0.0.1:0"], &[]);
    let address = listening(&mut iam);
    let screen = iam.wait_for_stderr(LAST);
    assert!(
        screen.contains(&format!("http://{address}/mock/v1/status")),
        "{screen}"
    );
    let begin = screen.find("[iam.keycloak]").expect("a section");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("pasted.toml");
    fs::write(&file, &screen[begin..]).expect("written");
    let free = [
        ("http.listen", "127.0.0.1:0"),
        ("management.listen", "127.0.0.1:0"),
    ];
    let config = file.to_str().expect("text");
    let mut program = GATEWAY.spawn(&["--config", config], &free);
    let (gateway, _) = program.addresses();
    let answer = fetch(gateway, post(LOGIN, ALICE));
    assert_eq!(answer.status, 200, "{answer:?}");
    iam.signal("INT");
    assert_eq!(iam.wait().code, Some(0));
    // A gateway reports an unavailable IAM as a fault.
    let answer = fetch(gateway, post(LOGIN, ALICE));
    assert_eq!(answer.status, 500, "{answer:?}");
}

#[test]
fn the_start_screen_names_the_users_file_of_the_settings() {
    let folder = TempDir::new().expect("a folder");
    let users = users(folder.path());
    let mut iam = GATEWAY.spawn(
        &["mock-iam", "--listen", "127.0.0.1:0"],
        &[("iam.mock.users_file", &users)],
    );
    let screen = iam.wait_for_stderr(LAST);
    assert!(screen.contains(&format!("users       {users}")), "{screen}");
    iam.stop();
}

#[test]
fn the_mock_stops_at_once_during_a_hanging_request() {
    let mut iam = GATEWAY.spawn(&["mock-iam", "--listen", "127.0.0.1:0"], &[]);
    let address = listening(&mut iam);
    let rule = r#"{"operation": "keys", "answer": "timeout"}"#;
    let answer = fetch(address, post("/mock/v1/faults", rule));
    assert_eq!(answer.status, 201, "{answer:?}");
    let mut waiting = Connection::to(address);
    waiting.send(get("/realms/shop/protocol/openid-connect/certs"));
    // Answered after the other request, so the other one has arrived.
    let faults = || {
        let list = fetch(address, get("/mock/v1/faults"));
        list.json()["faults"][0]["applied"] == 1
    };
    while !faults() {}
    iam.stop();
    waiting.closed();
}

#[test]
fn production_refuses_the_mock_with_otherwise_valid_settings() {
    let production = [
        ("ENVIRONMENT", "production"),
        ("http.public_url", "https://gateway.test"),
        ("keys.signing_dir", "/keys/signing"),
        ("keys.sealing_dir", "/keys/sealing"),
        ("iam.keycloak.url", "https://keycloak.test"),
        ("iam.keycloak.realm", "shop"),
        ("iam.keycloak.client_id", "auth-gateway"),
        ("iam.keycloak.client_secret", SECRET),
    ];
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "environment = \"production\"").expect("written");
    let file = ["--config", file.to_str().expect("text")];
    let ended = GATEWAY.run(&[&["mock-iam"], &file[..]].concat(), &[]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(
        ended.err.contains("mock-iam is for development"),
        "{ended:?}"
    );
    for more in [&[][..], &["--listen", "127.0.0.1:0"]] {
        let ended = GATEWAY.run(&[&["mock-iam"], more].concat(), &production);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(
            ended.err.contains("mock-iam is for development"),
            "{ended:?}"
        );
        assert!(!ended.everything().contains("canary"), "{ended:?}");
    }
}

#[test]
fn settings_in_a_pipe_are_used() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let text = b"[token]\nlifetime = \"2d\"\n";
    writer.write_all(text).expect("written");
    drop(writer);
    let arguments = [
        "mock-iam",
        "--config",
        "/dev/stdin",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut command = GATEWAY.command(&arguments, &[]);
    command.stdin(reader);
    let ended = Program::start(command).wait();
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("- token.lifetime: "), "{}", ended.err);
}

#[test]
fn invalid_settings_are_reported_before_a_port_is_bound() {
    let keycloak = [
        ("iam.keycloak.url", "https://keycloak.test"),
        ("iam.keycloak.realm", "shop"),
        ("iam.keycloak.client_id", "auth-gateway"),
        ("iam.keycloak.client_secret", SECRET),
    ];
    for (arguments, variables, expected) in [
        (&["mock-iam"][..], &keycloak[..], "plain http"),
        (
            &["mock-iam", "--users-file", "no/such/file"],
            &[],
            "no/such/file",
        ),
        (&["mock-iam", "--listen", "nowhere"], &[], "--listen"),
        (
            &["mock-iam", "--client-secret", "canary"],
            &[],
            "--client-secret",
        ),
    ] {
        let ended = GATEWAY.run(arguments, variables);
        assert_eq!(ended.code, Some(64), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{arguments:?}: {ended:?}");
    }
}
