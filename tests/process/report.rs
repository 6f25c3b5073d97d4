//! The report of every problem that prevents the start: settings, files, keys and certificates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use test_support::machine::not_run;
use test_support::program::{Ended, Program};

use crate::GATEWAY;

/// A user and a group that own no file.
const OTHER_USER: u32 = 65534;

/// A folder for the files of one gateway.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        let folder = Path::new(&path).parent().expect("a folder");
        fs::create_dir_all(folder).expect("a folder");
        fs::write(&path, text).expect("written");
        self.set_mode(name, mode);
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("a mode");
    }

    fn generate_keys(&self) {
        for purpose in ["signing", "sealing"] {
            let arguments = ["keys", "generate", "--use", purpose, "--dir"];
            let ended = GATEWAY.run(&[&arguments[..], &[&self.path(purpose)]].concat(), &[]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }

    /// Valid settings for production, except perhaps for the mode of their file.
    fn write_production(&self, iam: &str, mode: u32) {
        let (signing, sealing) = (self.path("signing"), self.path("sealing"));
        let text = format!(
            r#"
            environment = "production"
            [http]
            public_url = "https://auth.example.test"
            [keys]
            signing_dir = "{signing}"
            sealing_dir = "{sealing}"
            [iam.keycloak]
            url = "https://iam.example.test"
            realm = "shop"
            client_id = "auth-gateway"
            {iam}
            "#
        );
        self.write("gateway.toml", &text, mode);
    }

    fn check(&self, variables: &[(&str, &str)]) -> Ended {
        GATEWAY.run(
            &["check", "--config", &self.path("gateway.toml")],
            variables,
        )
    }
}

const INLINE: &str = "client_secret = \"canary-of-the-client-secret\"";

#[track_caller]
fn names(ended: &Ended, problems: &[String]) {
    assert_eq!(ended.code, Some(64), "{ended:?}");
    for problem in problems {
        let named = |line: &&str| line.trim_start().starts_with(&format!("- {problem}"));
        let everything = ended.everything();
        let found = everything.lines().filter(named).count();
        assert_eq!(found, 1, "{problem} in:\n{everything}");
    }
    assert!(!ended.everything().contains("canary"), "{ended:?}");
}

#[test]
fn report_names_every_setting_file_key_and_certificate_at_once() {
    let files = Files::new();
    let path = |name: &str| files.path(name);
    files.write("signing/a.jwk", "{}", 0o600);
    files.write("signing/b.jwk", "{}", 0o644);
    fs::create_dir(path("signing/c.jwk")).expect("a folder");
    files.write("key.pem", "no PEM", 0o644);
    fs::create_dir(path("ca")).expect("a folder");
    let text = format!(
        r#"
        environment = "production"
        [http]
        workers = 0
        [http.tls]
        certificate_file = "{chain}"
        key_file = "{key}"
        [keys]
        signing_dir = "{signing}"
        sealing_dir = "{sealing}"
        [iam.keycloak]
        url = "http://iam.example.test/?a"
        realm = "shop"
        client_id = ""
        client_secret_file = "{secret}"
        ca_file = "{ca}"
        [redis]
        url = "rediss://redis.example.test"
        password_file = "{secret}"
        ca_file = "{chain}"
        [audit]
        destination = "file"
        file = "/nowhere/audit.log"
        "#,
        chain = path("chain.pem"),
        key = path("key.pem"),
        signing = path("signing"),
        sealing = path("sealing"),
        secret = path("secret"),
        ca = path("ca"),
    );
    files.write("gateway.toml", &text, 0o644);
    let config = path("gateway.toml");
    for arguments in [
        ["check", "--config", &config],
        ["serve", "--config", &config],
    ] {
        let ended = GATEWAY.run(&arguments, &[("http.listn", "canary")]);
        names(
            &ended,
            &[
                "AUTH_GATEWAY__HTTP__LISTN: ".to_owned(),
                "http.workers: 0 ".to_owned(),
                "http.public_url: ".to_owned(),
                format!(
                    "http.tls.certificate_file: {}: no such file",
                    path("chain.pem")
                ),
                format!("http.tls.key_file: {}: every user may ", path("key.pem")),
                format!("keys.signing_dir: {}: ", path("signing/a.jwk")),
                format!(
                    "keys.signing_dir: {}: every user may ",
                    path("signing/b.jwk")
                ),
                format!("keys.signing_dir: {}: not a file", path("signing/c.jwk")),
                format!("keys.sealing_dir: {}: no such file", path("sealing")),
                "keys.identifier_key_file: is missing".to_owned(),
                "iam.keycloak.url: must be https in production".to_owned(),
                "iam.keycloak.url: must have no query and no fragment".to_owned(),
                "iam.keycloak.client_id: must not be empty".to_owned(),
                format!(
                    "iam.keycloak.client_secret_file: {}: no such file",
                    path("secret")
                ),
                format!("iam.keycloak.ca_file: {}: is a directory", path("ca")),
                format!("redis.password_file: {}: no such file", path("secret")),
                format!("redis.ca_file: {}: no such file", path("chain.pem")),
                "audit.file: /nowhere/audit.log: no such file or directory".to_owned(),
            ],
        );
    }
}

/// Nobody writes to the pipe, so a gateway that opened it would not end.
#[test]
fn report_names_every_setting_whose_file_is_a_pipe() {
    let files = Files::new();
    files.generate_keys();
    let pipe = files.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let settings = format!(
        r#"
        client_secret_file = "{pipe}"
        ca_file = "{pipe}"
        [http.tls]
        certificate_file = "{pipe}"
        key_file = "{pipe}"
        [redis]
        url = "rediss://redis.example.test"
        password_file = "{pipe}"
        ca_file = "{pipe}"
        "#
    );
    files.write_production(&settings, 0o644);
    let refused = |setting: &str| format!("{setting}: {pipe}: is not a regular file");
    names(
        &files.check(&[]),
        &[
            refused("iam.keycloak.client_secret_file"),
            refused("iam.keycloak.ca_file"),
            refused("http.tls.certificate_file"),
            refused("http.tls.key_file"),
            refused("redis.password_file"),
            refused("redis.ca_file"),
        ],
    );
}

/// Files that only their owner may read, and a gateway that runs as another user.
#[test]
fn report_names_every_file_that_the_user_of_the_gateway_may_not_read() {
    let files = Files::new();
    files.set_mode(".", 0o755);
    files.generate_keys();
    files.write("secret", "canary-of-the-client-secret", 0o600);
    files.write("key.pem", "canary", 0o600);
    files.write_production(
        &format!(
            "client_secret_file = \"{}\"\n[http.tls]\ncertificate_file = \"{1}\"\nkey_file = \"{1}\"",
            files.path("secret"),
            files.path("key.pem")
        ),
        0o644,
    );
    // Only root may read a file without any mode bit.
    for name in ["signing", "sealing", "secret", "key.pem"] {
        files.set_mode(name, 0);
    }
    let mut check = GATEWAY.command(&["check", "--config", &files.path("gateway.toml")], &[]);
    if rustix::process::geteuid().is_root() {
        check.uid(OTHER_USER).gid(OTHER_USER);
    }
    let ended = Program::start(check).wait();
    let denied =
        |setting: &str, name: &str| format!("{setting}: {}: permission denied", files.path(name));
    names(
        &ended,
        &[
            denied("iam.keycloak.client_secret_file", "secret"),
            denied("keys.signing_dir", "signing"),
            denied("keys.sealing_dir", "sealing"),
            denied("http.tls.certificate_file", "key.pem"),
            denied("http.tls.key_file", "key.pem"),
        ],
    );
}

#[test]
fn production_refuses_a_world_accessible_settings_file_with_a_secret() {
    let files = Files::new();
    files.generate_keys();
    let config = files.path("gateway.toml");
    for mode in [0o644, 0o604, 0o602] {
        files.write_production(INLINE, mode);
        let command = format!("chmod o-rw {config}");
        // Also if a variable overrides the secret of the file, because the file still contains it.
        for over in [
            &[][..],
            &[("iam.keycloak.client_secret", "0123456789abcdef")],
        ] {
            let ended = files.check(over);
            let detail = format!(
                "{config}: holds iam.keycloak.client_secret, and every user may read or change it \
                 (mode {mode:04o}); run: {command}"
            );
            names(&ended, &[detail]);
        }
    }
    for mode in [0o600, 0o640, 0o440, 0o660] {
        files.write_production(INLINE, mode);
        let ended = files.check(&[]);
        assert_eq!(ended.code, Some(0), "{mode:o}: {ended:?}");
    }
    // Without a secret, and in development, a world-readable file is allowed.
    files.write("secret", "canary-of-the-client-secret", 0o400);
    files.write_production(
        &format!("client_secret_file = \"{}\"", files.path("secret")),
        0o644,
    );
    assert_eq!(files.check(&[]).code, Some(0));
    files.write_production(INLINE, 0o644);
    let ended = files.check(&[("ENVIRONMENT", "development")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// As Kubernetes mounts a secret: world-writable by its mode, on a read-only file system.
#[test]
fn production_accepts_a_key_folder_of_any_mode_on_a_read_only_file_system() {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o mode="$6" none "$1" && cp "$2"/*.jwk "$1" || exit 1
        [ "$3" = rw ] || mount -o remount,ro "$1" || exit 1
        exec "$4" check --config "$5"
    "#;
    let files = Files::new();
    files.generate_keys();
    fs::create_dir(files.path("mounted")).expect("a folder");
    files.write_production(INLINE, 0o600);
    let config = files.path("gateway.toml");
    let text = fs::read_to_string(&config).expect("settings");
    let text = text.replace(&files.path("signing"), &files.path("mounted"));
    fs::write(&config, text).expect("written");
    let namespace = ["--mount", "--user", "--map-root-user"];
    let namespace = if rustix::process::geteuid().is_root() {
        &namespace[..1]
    } else {
        &namespace
    };
    let isolated = || {
        let mut command = Command::new("unshare");
        command.args(namespace).stdin(Stdio::null());
        command
    };
    if !isolated()
        .arg("true")
        .status()
        .is_ok_and(|ended| ended.success())
    {
        not_run("this machine allows no mount namespace");
        return;
    }
    let check = |access: &str, mode: &str| {
        let mut check = isolated();
        let (mounted, keys) = (files.path("mounted"), files.path("signing"));
        check.args([
            "sh",
            "-c",
            SCRIPT,
            "sh",
            &mounted,
            &keys,
            access,
            GATEWAY.path,
            &config,
            mode,
        ]);
        Program::start(check).wait()
    };
    for (mode, may) in [("0777", "add and remove"), ("1777", "add"), ("3777", "add")] {
        names(
            &check("rw", mode),
            &[format!(
                "keys.signing_dir: {}: every user may {may} files (mode {mode})",
                files.path("mounted")
            )],
        );
        let ended = check("ro", mode);
        assert_eq!(ended.code, Some(0), "{mode}: {ended:?}");
    }
}
