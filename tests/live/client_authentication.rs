//! How the gateway's client authenticates, through both adapters, at a Keycloak with TLS.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use iam_conformance::Account;
use josekit::jwk::KeyPair as _;
use josekit::jws::{ES256, JwsHeader};
use josekit::jwt::{self, JwtPayload};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::json::with;
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::suite::{READ, session_of};
use test_support::wait::until;

use crate::administrator::PermissionsFrom;
use crate::another_realm::gateway_client;
use crate::fixture::LiveFixture;
use crate::keycloak::Instance;
use crate::misconfigured::check;
use crate::process::{Process, borrowed};

/// The clients that authenticate by an assertion of their own, by one of another authority, and by TLS. The
/// last has a secret.
const BY_KEY: &str = "by-key";
const BY_ASSERTION: &str = "by-assertion";
const BY_TLS: &str = "by-tls";
const BY_SECRET: &str = "auth-gateway";

const SUBJECT: &str = "system:serviceaccount:shop:auth-gateway";

/// A Keycloak with TLS and these clients, and an authority of Kubernetes tokens.
struct Scene {
    instance: Instance,
    fixture: LiveFixture,
    user: Account,
    authority: Issuer<'static, KeyPair>,
    kubernetes: ScriptedUpstream,
    token_key: josekit::jwk::alg::ec::EcKeyPair,
    folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = authority.self_signed(&key).expect("a certificate");
        write(folder.path(), "authorities.pem", &certificate.pem());
        let authority = Issuer::new(authority, key);
        let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = server.signed_by(&key, &authority).expect("a certificate");
        write(folder.path(), "certificate.pem", &certificate.pem());
        write(folder.path(), "key.pem", &key.serialize_pem());
        let instance = Instance::start_with_tls(folder.path()).await;
        let fixture = LiveFixture::with_keycloak(&instance.keycloak, PermissionsFrom::Client).await;
        let user = fixture.user(&[READ]).await;
        let scene = Self {
            instance,
            fixture,
            user,
            authority,
            kubernetes: ScriptedUpstream::start().await,
            token_key: ES256.generate_key_pair().expect("a key"),
            folder,
        };
        scene.create_clients().await;
        scene
    }

    async fn create_clients(&self) {
        let issuer = self.kubernetes.url();
        let mut key = self.token_key.to_jwk_public_key();
        key.set_key_id("k1");
        key.set_key_use("sig");
        key.set_algorithm("ES256");
        let keys = format!("{issuer}/openid/v1/jwks");
        let document = json!({"issuer": issuer, "jwks_uri": keys});
        self.kubernetes
            .on(
                "/.well-known/openid-configuration",
                Answer::json(200, document),
            )
            .on(
                "/openid/v1/jwks",
                Answer::json(200, json!({"keys": [key.as_ref()]})),
            );
        let provider = json!({
            "alias": "kubernetes",
            "providerId": "kubernetes",
            "enabled": true,
            "config": {"issuer": issuer},
        });
        let path = ["identity-provider", "instances"];
        self.post(&path, provider).await;
        for (client, authenticator, attributes) in [
            (BY_KEY, "client-jwt", json!({})),
            (
                BY_ASSERTION,
                "federated-jwt",
                json!({"jwt.credential.issuer": "kubernetes", "jwt.credential.sub": SUBJECT}),
            ),
            (
                BY_TLS,
                "client-x509",
                json!({
                    "x509.subjectdn": "CN=auth-gateway",
                    "x509.allow.regex.pattern.comparison": "false",
                }),
            ),
        ] {
            let client = json!({
                "clientId": client,
                "clientAuthenticatorType": authenticator,
                "attributes": attributes,
                "publicClient": false,
                "standardFlowEnabled": false,
                "directAccessGrantsEnabled": true,
            });
            self.post(&["clients"], client).await;
        }
        self.write_key(&KeyPair::generate().expect("a key")).await;
        self.write_token(&json!({}));
        self.write_identity("auth-gateway", Some(&self.authority));
    }

    async fn post(&self, path: &[&str], body: Value) {
        let api = &self.fixture.administrator.api;
        api.done(Method::POST, path, Some(body)).await;
    }

    /// Changes attributes of a client.
    async fn set_attributes(&self, client: &str, attributes: Value) {
        let keycloak = self.instance.keycloak.as_client(client, "");
        let api = &self.fixture.administrator.api;
        let id = gateway_client(api, &keycloak).await;
        let path = ["clients", &id];
        let mut representation = api.get(&path).await;
        for (name, value) in attributes.as_object().expect("attributes") {
            representation["attributes"][name] = value.clone();
        }
        api.done(Method::PUT, &path, Some(representation)).await;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        write(self.folder.path(), name, content);
    }

    /// Writes a key, and makes it the client's at Keycloak.
    async fn write_key(&self, key: &KeyPair) {
        let certificate = CertificateParams::default().self_signed(key);
        let pem = certificate.expect("a certificate").pem();
        let body: String = pem
            .lines()
            .filter(|line| !line.starts_with("---"))
            .collect();
        self.set_attributes(BY_KEY, json!({"jwt.credential.certificate": body}))
            .await;
        self.write("client-key.pem", &key.serialize_pem());
    }

    /// Writes a token with these claims in place of the usual ones.
    fn write_token(&self, changes: &Value) {
        self.write_token_signed(changes, &self.token_key);
    }

    fn write_token_signed(&self, changes: &Value, key: &josekit::jwk::alg::ec::EcKeyPair) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let claims = json!({
            "iss": self.kubernetes.url(),
            "sub": SUBJECT,
            "aud": self.issuer(),
            "iat": now.as_secs(),
            "exp": now.as_secs() + 3600,
        });
        let claims = with(claims, changes);
        let claims = claims.as_object().expect("claims").clone();
        let claims = JwtPayload::from_map(claims).expect("claims");
        let mut header = JwsHeader::new();
        header.set_key_id("k1");
        let signer = ES256
            .signer_from_pem(key.to_pem_private_key())
            .expect("a key");
        let token = jwt::encode_with_signer(&claims, &header, &signer).expect("a token");
        self.write("token", &token);
    }

    /// Writes a certificate for a client with this name, and its key. Without an authority, it is signed by
    /// itself.
    fn write_identity(&self, name: &str, authority: Option<&Issuer<'static, KeyPair>>) {
        let mut client = CertificateParams::default();
        client.distinguished_name = rcgen::DistinguishedName::new();
        client.distinguished_name.push(DnType::CommonName, name);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = match authority {
            Some(authority) => client.signed_by(&key, authority),
            None => client.self_signed(&key),
        };
        self.write("identity.pem", &certificate.expect("a certificate").pem());
        self.write("identity-key.pem", &key.serialize_pem());
    }

    fn issuer(&self) -> String {
        let Instance {
            keycloak, tls_url, ..
        } = &self.instance;
        format!(
            "{}/realms/{}",
            tls_url.as_deref().expect("TLS"),
            keycloak.realm
        )
    }

    /// The settings of a client with this method, for each adapter.
    fn settings(&self, client: &str, method: &str) -> [Vec<(String, String)>; 2] {
        let path = |name: &str| self.file(name).display().to_string();
        let files = match method {
            "private_key_jwt" => vec![("private_key_file", path("client-key.pem"))],
            "client_assertion" => vec![("client_assertion_file", path("token"))],
            "tls_client_auth" => vec![
                ("client_certificate_file", path("identity.pem")),
                ("client_key_file", path("identity-key.pem")),
            ],
            _ => vec![("client_secret", "another-secret-0123".to_owned())],
        };
        let Instance {
            keycloak, tls_url, ..
        } = &self.instance;
        let keycloak = [
            ("url", tls_url.clone().expect("TLS")),
            ("realm", keycloak.realm.clone()),
        ];
        let section = |name: &str, own: &[(&str, String)]| {
            let common = [
                ("client_id", client.to_owned()),
                ("client_auth_method", method.to_owned()),
                ("ca_file", path("authorities.pem")),
            ];
            let all = own.iter().chain(&common).chain(&files);
            let all = all.map(|(key, value)| (format!("iam.{name}.{key}"), value.clone()));
            all.collect()
        };
        let oauth2 = [("issuer", self.issuer())];
        [section("keycloak", &keycloak), section("oauth2", &oauth2)]
    }
}

fn write(folder: &Path, name: &str, content: &str) {
    let (file, new) = (folder.join(name), folder.join("new"));
    fs::write(&new, content).expect("written");
    fs::set_permissions(&new, Permissions::from_mode(0o600)).expect("a mode");
    fs::rename(new, file).expect("renamed");
}

/// The method works from login to logout, a bad file is not used, and a changed one is, without a restart.
/// `change` changes what the server expects of the client, and then the files.
async fn works_and_is_hot(
    scene: &Scene,
    client: &str,
    method: &str,
    file: &str,
    change: impl AsyncFn(&Scene, &str),
) {
    let mut names = ["one", "two"].iter();
    for settings in scene.settings(client, method) {
        let interval = [("keys.reload_interval", "1s")];
        let settings = [&borrowed(&settings)[..], &interval].concat();
        let process = Process::start_and_probe(&settings).await;
        let logs_in = async || {
            let user = &scene.user;
            process
                .client
                .log_in(&user.email, &user.password)
                .await
                .status
                == 200
        };
        let session = session_of(&process.client, &scene.user).await;
        assert_eq!(process.client.exchange(&session, READ).await.status, 200);
        assert_eq!(process.client.log_out(&session).await.status, 200);

        let content = fs::read_to_string(scene.file(file)).expect("the file");
        scene.write(file, "garbage");
        until("the reason of the bad file", async || {
            let ready = process.client.ready().await.json();
            ready["reasons"].to_string().contains("files_unreadable")
        })
        .await;
        assert!(logs_in().await, "{method}: the old file is used");
        scene.write(file, &content);
        until("the file to be read", async || {
            let ready = process.client.ready().await.json();
            !ready["reasons"].to_string().contains("files_unreadable")
        })
        .await;

        change(scene, names.next().expect("another name")).await;
        until("a login with the new file", logs_in).await;
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn every_method_works_and_a_changed_file_is_used_without_a_restart() {
    let scene = Scene::new().await;
    let new_key = async |scene: &Scene, _: &str| {
        scene.write_key(&KeyPair::generate().expect("a key")).await;
    };
    works_and_is_hot(&scene, BY_KEY, "private_key_jwt", "client-key.pem", new_key).await;
    let new_token = async |scene: &Scene, name: &str| {
        let subject = json!({"jwt.credential.sub": name});
        scene.set_attributes(BY_ASSERTION, subject).await;
        scene.write_token(&json!({"sub": name}));
    };
    works_and_is_hot(&scene, BY_ASSERTION, "client_assertion", "token", new_token).await;
    let new_identity = async |scene: &Scene, name: &str| {
        let subject = json!({"x509.subjectdn": format!("CN={name}")});
        scene.set_attributes(BY_TLS, subject).await;
        scene.write_identity(name, Some(&scene.authority));
    };
    works_and_is_hot(
        &scene,
        BY_TLS,
        "tls_client_auth",
        "identity-key.pem",
        new_identity,
    )
    .await;
}

fn check_accepts_every_method(scene: &Scene) {
    for (client, method) in [
        (BY_KEY, "private_key_jwt"),
        (BY_ASSERTION, "client_assertion"),
        (BY_TLS, "tls_client_auth"),
    ] {
        for settings in scene.settings(client, method) {
            let (code, output) = check(&[], &borrowed(&settings), None);
            assert_eq!(code, Some(0), "{method}: {output}");
        }
    }
}

/// With several threads, because `check` blocks one, and Keycloak fetches the keys of Kubernetes meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn check_names_each_misconfiguration_of_the_client_authentication() {
    let scene = Scene::new().await;
    let named = |client: &str, method: &str, more: &[(&str, &str)], words: [&str; 2]| {
        for (settings, words) in scene.settings(client, method).into_iter().zip(words) {
            let (first, _) = &settings[0];
            let adapter = first.split('.').nth(1).expect("a section").to_owned();
            let more = more.iter();
            let more =
                more.map(|(key, value)| (format!("iam.{adapter}.{key}"), (*value).to_owned()));
            let settings: Vec<_> = settings.into_iter().chain(more).collect();
            let (code, output) = check(&[], &borrowed(&settings), None);
            assert_eq!(code, Some(69), "{method}: {output}");
            assert!(output.contains(words), "{method}: {words}: {output}");
            assert!(output.contains("does not accept this gateway"), "{output}");
        }
    };
    check_accepts_every_method(&scene);
    let expired = "the assertion in client_assertion_file has expired";

    let (method, of_oauth2) = ("private_key_jwt", "check client_id, private_key_file");
    named("no-such-client", method, &[], ["unknown client", of_oauth2]);
    let kid = [("private_key_id", "another")];
    named(
        BY_KEY,
        method,
        &kid,
        ["no key with private_key_id", of_oauth2],
    );
    named(
        BY_SECRET,
        method,
        &[],
        ["the client authenticates by a secret", of_oauth2],
    );
    let key = KeyPair::generate().expect("a key").serialize_pem();
    scene.write("client-key.pem", &key);
    named(
        BY_KEY,
        method,
        &[],
        ["not that of the client's key", of_oauth2],
    );

    let (method, of_oauth2) = (
        "client_assertion",
        "check client_id, and the issuer, subject",
    );
    let one_of = "another subject than that of the client, or a signature that is not valid";
    named("no-such-client", method, &[], [one_of, of_oauth2]);
    named(
        BY_SECRET,
        method,
        &[],
        ["the client authenticates by a secret", of_oauth2],
    );
    scene.write_token(&json!({"aud": "https://another.test"}));
    named(
        BY_ASSERTION,
        method,
        &[],
        ["audience of the assertion must be", of_oauth2],
    );
    scene.write_token(&json!({"sub": "another"}));
    named(BY_ASSERTION, method, &[], [one_of, of_oauth2]);
    scene.write_token(&json!({"iss": "https://another.test"}));
    named(BY_ASSERTION, method, &[], [one_of, of_oauth2]);
    scene.write_token_signed(&json!({}), &ES256.generate_key_pair().expect("a key"));
    named(BY_ASSERTION, method, &[], [one_of, of_oauth2]);
    scene.write_token(&json!({"exp": 1}));
    named(BY_ASSERTION, method, &[], [expired, expired]);

    let (method, of_oauth2) = (
        "tls_client_auth",
        "check client_id, the subject of client_certificate",
    );
    let one_of = "another subject than that of the client, or no certificate received";
    named("no-such-client", method, &[], [one_of, of_oauth2]);
    named(
        BY_SECRET,
        method,
        &[],
        ["the client authenticates by a secret", of_oauth2],
    );
    scene.write_identity("another", Some(&scene.authority));
    named(BY_TLS, method, &[], [one_of, of_oauth2]);
    scene.write_identity("auth-gateway", None);
    let refused = "the server refused the client certificate";
    named(BY_TLS, method, &[], [refused, refused]);

    let (method, of_oauth2) = ("client_secret_basic", "check client_id and client_secret");
    named(
        BY_KEY,
        method,
        &[],
        ["the client authenticates by an assertion", of_oauth2],
    );
    named(BY_TLS, method, &[], ["unknown client", of_oauth2]);
}
