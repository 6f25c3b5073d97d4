//! TLS on the public listener.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use tempfile::TempDir;
use test_support::canary::Canary;
use test_support::endpoints::LOGIN;
use test_support::files::write_private;
use test_support::program::Program;
use test_support::wire::{ALICE, Connection, fetch, get, post};

use crate::GATEWAY;

/// A certificate for `localhost` that expires with this year, and its files.
struct Certificate {
    folder: TempDir,
    roots: RootCertStore,
}

impl Certificate {
    fn new() -> Self {
        Self::until(2090)
    }

    fn until(year: i32) -> Self {
        Self::between(1975, year)
    }

    /// Valid from the first day of one year to the last of another.
    fn between(first: i32, last: i32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(last, 12, 31);
        let signing_key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&signing_key).expect("a certificate");
        fs::write(folder.path().join("chain.pem"), cert.pem()).expect("written");
        write_private(folder.path().join("key.pem"), signing_key.serialize_pem());
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a root");
        Self { folder, roots }
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_string_lossy().into_owned()
    }

    fn serve(&self, filter: &str) -> (Program, (SocketAddr, SocketAddr)) {
        let mut program = GATEWAY.serve(&[
            ("http.tls.certificate_file", &self.path("chain.pem")),
            ("http.tls.key_file", &self.path("key.pem")),
            ("keys.reload_interval", "1s"),
            ("log.filter", filter),
        ]);
        let addresses = program.addresses();
        (program, addresses)
    }

    fn connect(
        &self,
        address: SocketAddr,
        version: &'static SupportedProtocolVersion,
        protocols: &[&str],
    ) -> TlsConnection {
        connect(address, &self.client(version, protocols))
    }

    fn client(
        &self,
        version: &'static SupportedProtocolVersion,
        protocols: &[&str],
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Arc::new(config)
    }
}

type TlsConnection = Connection<StreamOwned<ClientConnection, TcpStream>>;

fn connect(address: SocketAddr, client: &Arc<ClientConfig>) -> TlsConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let stream = TcpStream::connect(address).expect("connected");
    Connection::over(StreamOwned::new(client, stream))
}

#[test]
fn tls_1_2_and_1_3_are_accepted_with_http_1_1_only() {
    let certificate = Certificate::new();
    let (mut program, (public, _)) = certificate.serve("info");
    assert!(
        program
            .wait_for_stderr("grant_type")
            .contains(&format!("https://{public}/api"))
    );
    for (version, known) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let mut connection = certificate.connect(public, version, &["h2", "http/1.1"]);
        for _ in 0..2 {
            let answer = connection.send(post(LOGIN, ALICE)).answer();
            assert_eq!(answer.status, 200, "{known:?}");
        }
        let tls = &connection.stream().conn;
        assert_eq!(tls.protocol_version(), Some(known));
        assert_eq!(tls.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
    let mut plain = Connection::to(public);
    assert!(!plain.send(post(LOGIN, ALICE)).rest().starts_with(b"HTTP"));
}

#[test]
fn each_connection_of_a_client_resumes_the_session_of_the_last_one() {
    let certificate = Certificate::new();
    let (_program, (public, _)) = certificate.serve("info");
    let client = certificate.client(&TLS13, &[]);
    let handshakes = [(); 3].map(|()| {
        let mut connection = connect(public, &client);
        assert_eq!(connection.send(post(LOGIN, ALICE)).answer().status, 200);
        connection.stream().conn.handshake_kind()
    });
    let kinds = [
        HandshakeKind::Full,
        HandshakeKind::Resumed,
        HandshakeKind::Resumed,
    ];
    assert_eq!(handshakes, kinds.map(Some));
}

#[test]
fn renewed_certificate_is_served_and_an_unusable_one_is_not() {
    let (served, renewed) = (Certificate::until(2090), Certificate::until(2091));
    let (mut program, (public, management)) = served.serve("info");
    let expiry = || {
        let metrics = fetch(management, get("/metrics"));
        let mut lines = metrics.body.lines();
        let name = "auth_gateway_certificate_expiry_timestamp_seconds ";
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.expect("a metric").parse::<i64>().expect("a time")
    };
    let [ends_2090, ends_2091] = [2090, 2091].map(|year| date_time_ymd(year, 12, 31));
    assert_eq!(expiry(), ends_2090.unix_timestamp());
    let mut open = served.connect(public, &TLS13, &[]);
    assert_eq!(open.send(post(LOGIN, ALICE)).answer().status, 200);
    let replace = |name: &str| fs::copy(renewed.path(name), served.path(name)).expect("copied");

    replace("chain.pem");
    let line = program.logged_with("code", "files_unreadable");
    let message = line["message"].as_str().expect("text");
    assert!(message.contains("http.tls: the certificate and the key do not belong together"));
    let mut before = served.connect(public, &TLS13, &[]);
    assert_eq!(before.send(post(LOGIN, ALICE)).answer().status, 200);
    assert_eq!(expiry(), ends_2090.unix_timestamp());

    replace("key.pem");
    program.logged("the files that the settings name were read again");
    let mut after = renewed.connect(public, &TLS13, &[]);
    assert_eq!(after.send(post(LOGIN, ALICE)).answer().status, 200);
    assert_eq!(expiry(), ends_2091.unix_timestamp());
    assert_eq!(open.send(post(LOGIN, ALICE)).answer().status, 200);
    let log = program.stop().log();
    let alarms = log.iter().filter(|line| line["code"] == "files_unreadable");
    assert_eq!(
        alarms.count(),
        2,
        "one about the fault and one about its end: {log:?}"
    );
}

/// The settings of a certificate of a year, and what is wrong with it.
fn certificates_of_other_times() -> [(Certificate, &'static str); 2] {
    [
        (
            Certificate::until(2020),
            "a certificate expired at 2020-12-31T00:00:00Z",
        ),
        (
            Certificate::between(2090, 2091),
            "a certificate is not valid before 2090-01-01T00:00:00Z",
        ),
    ]
}

#[test]
fn check_refuses_a_certificate_that_is_not_valid_now() {
    for (certificate, problem) in certificates_of_other_times() {
        let ended = GATEWAY.run(
            &["check"],
            &[
                ("http.tls.certificate_file", &certificate.path("chain.pem")),
                ("http.tls.key_file", &certificate.path("key.pem")),
            ],
        );
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let line = format!("- http.tls.certificate_file: {problem}");
        assert!(ended.out.contains(&line), "{ended:?}");
    }
}

#[test]
fn gateway_with_a_certificate_that_is_not_valid_now_starts_degraded_and_says_so() {
    for (certificate, problem) in certificates_of_other_times() {
        let (mut program, (_, management)) = certificate.serve("info");
        let line = program.logged_with("code", "certificate_invalid");
        assert_eq!(line["level"], "WARN");
        assert!(
            line["message"].as_str().expect("text").ends_with(problem),
            "{line}"
        );
        let ready = fetch(management, get("/health/ready"));
        assert_eq!(ready.status, 200);
        let report: serde_json::Value = serde_json::from_str(&ready.body).expect("JSON");
        assert_eq!(report["status"], "degraded", "{report}");
        assert_eq!(
            report["reasons"][0]["code"], "certificate_invalid",
            "{report}"
        );
    }
}

#[test]
fn valid_certificate_is_replaced_by_one_that_is_valid_now_only() {
    let served = Certificate::new();
    let (mut program, (public, _)) = served.serve("info");
    let replace = |other: &Certificate| {
        for name in ["chain.pem", "key.pem"] {
            fs::copy(other.path(name), served.path(name)).expect("copied");
        }
    };
    let [(expired, problem), _] = certificates_of_other_times();
    replace(&expired);
    // Before that, one of the two files is that of the other certificate.
    let names_it = |line: &serde_json::Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.contains(problem))
    };
    while !names_it(&program.logged_with("code", "files_unreadable")) {}
    let mut before = served.connect(public, &TLS13, &[]);
    assert_eq!(before.send(post(LOGIN, ALICE)).answer().status, 200);
    let valid = Certificate::until(2091);
    replace(&valid);
    program.logged("the files that the settings name were read again");
    let mut after = valid.connect(public, &TLS13, &[]);
    assert_eq!(after.send(post(LOGIN, ALICE)).answer().status, 200);
}

/// The settings file is a named pipe, so the gateway waits for its text.
#[test]
fn sighup_while_the_settings_are_read_does_not_end_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gateway.toml");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let mut program = GATEWAY.serve(&[("AUTH_GATEWAY_CONFIG", path.to_str().expect("text"))]);
    // Opens once the gateway has opened the other end.
    let mut settings = File::create(&path).expect("a pipe");
    program.signal("HUP");
    settings.write_all(b"[token]\n").expect("written");
    drop(settings);
    let (public, _) = program.addresses();
    let login = fetch(public, post(LOGIN, ALICE));
    assert_eq!(login.status, 200);
}

#[test]
fn at_trace_level_tls_writes_no_secret() {
    let certificate = Certificate::new();
    let (program, (public, _)) = certificate.serve("trace");
    let mut connection = certificate.connect(public, &TLS13, &[]);
    let login = ALICE.replace("alice-pass", "canary-of-a-password");
    assert_eq!(connection.send(post(LOGIN, &login)).answer().status, 401);
    let session = connection.send(post(LOGIN, ALICE)).answer().json();
    let session_token = session["session_token"].as_str().expect("a token");
    let ended = program.stop();
    let targets = ended
        .log()
        .into_iter()
        .filter_map(|line| line["target"].as_str().map(str::to_owned));
    assert!(
        targets
            .into_iter()
            .any(|target| target.starts_with("rustls")),
        "{}",
        ended.out
    );
    let key = fs::read_to_string(certificate.path("key.pem")).expect("a key");
    for canary in [
        Canary::new("the password", "canary-of-a-password"),
        Canary::new("the session token", session_token),
        Canary::new("the key", key.lines().nth(1).expect("a line")),
    ] {
        assert!(
            !ended.everything().lines().any(|line| canary.is_in(line)),
            "{}",
            canary.what
        );
    }
}

/// The TLS library knows no version before 1.2, so the client hello is written by hand.
#[test]
fn tls_1_1_is_refused() {
    let certificate = Certificate::new();
    let (_program, (public, _)) = certificate.serve("info");
    let mut hello = vec![0x03, 0x02];
    hello.extend([7; 32]);
    // No session; TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA; no compression.
    hello.extend([0, 0, 2, 0xc0, 0x09, 1, 0]);
    let length = u8::try_from(hello.len()).expect("short");
    let mut record = vec![0x16, 0x03, 0x01, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    // A fatal alert (RFC 5246 section 7.2).
    let response = Connection::to(public).send(record).rest();
    assert_eq!(response.first(), Some(&0x15), "{response:?}");
    assert_eq!(response.get(5), Some(&2), "{response:?}");
}

#[test]
fn key_of_another_certificate_is_invalid_configuration() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let variables = [
        ("http.tls.certificate_file", &*one.path("chain.pem")),
        ("http.tls.key_file", &*other.path("key.pem")),
    ];
    for command in ["serve", "check"] {
        let ended = GATEWAY.run(&[command], &variables);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let expected = "http.tls: the certificate and the key do not belong together";
        assert!(ended.everything().contains(expected), "{ended:?}");
    }
}

#[test]
fn http_2_is_not_compiled_in() {
    let lock = include_str!("../../Cargo.lock");
    assert!(lock.contains("name = \"actix-http\""));
    assert!(!lock.contains("name = \"h2\""));
}
