//! `keys list --json`, `healthcheck` and `completions`.

use std::fs;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::{GATEWAY, KEYCLOAK};

#[test]
fn keys_are_listed_as_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    for arguments in [
        &["keys", "generate", "--dir", folder][..],
        &["keys", "generate", "--dir", folder],
        &["keys", "generate", "--dir", folder, "--use", "sealing"],
    ] {
        assert_eq!(GATEWAY.run(arguments, &[]).code, Some(0));
    }
    let ended = GATEWAY.run(&["keys", "list", "--json", "--dir", folder], &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let keys: Vec<Value> = serde_json::from_str(&ended.out).expect("an array");
    let [in_use, waiting, sealing] = &keys[..] else {
        panic!("{keys:?}");
    };
    let member = |name: &str| [in_use, waiting, sealing].map(|key| key[name].clone());
    assert_eq!(
        member("purpose"),
        ["signing", "signing", "sealing"].map(Value::from)
    );
    assert_eq!(
        member("algorithm"),
        ["ES256", "ES256", "A256GCM"].map(Value::from)
    );
    assert_eq!(waiting["state"], json!("waiting"));
    assert_eq!(waiting["used_from"], waiting["first_use"]);
    assert!(waiting["used_by_all_from"].is_string(), "{waiting}");
    assert_ne!(in_use["state"], json!("waiting"));
    let empty = tempfile::tempdir().expect("a folder");
    let empty = empty.path().to_str().expect("text");
    let ended = GATEWAY.run(&["keys", "list", "--json", "--dir", empty], &[]);
    assert_eq!(ended.out.trim(), "[]");
}

#[test]
fn healthcheck_succeeds_only_if_the_gateway_should_get_traffic() {
    // An IAM that cannot be reached degrades the replica, which still gets traffic.
    let mut program = GATEWAY.serve(&KEYCLOAK);
    let (_, management) = program.addresses();
    program.logged("calls to the IAM fail");
    let address = management.to_string();
    let listen = [("management.listen", address.as_str())];
    let settings = [&KEYCLOAK[..], &listen].concat();
    let ended = GATEWAY.run(&["healthcheck"], &settings);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.trim(), "degraded: unreachable");
    program.stop();
    let ended = GATEWAY.run(&["healthcheck"], &settings);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains(&address), "{ended:?}");
    let any_port = [&KEYCLOAK[..], &[("management.listen", "127.0.0.1:0")]].concat();
    assert_eq!(GATEWAY.run(&["healthcheck"], &any_port).code, Some(64));
}

#[test]
fn calls_of_a_running_gateway_need_only_their_own_settings() {
    let secret_file = |secret: &str| {
        let file = NamedTempFile::new().expect("a file");
        fs::write(&file, secret).expect("written");
        file
    };
    let token = secret_file("token-of-an-operator-0123456789");
    let identifiers = secret_file("0123456789abcdef0123456789abcdef");
    let path = |file: &NamedTempFile| file.path().to_str().expect("text").to_owned();
    let (token_path, identifiers_path) = (path(&token), path(&identifiers));
    let files = [
        ("management.token_file", token_path.as_str()),
        ("keys.identifier_key_file", identifiers_path.as_str()),
        ("keys.reload_interval", "1s"),
    ];
    let mut program = GATEWAY.serve(&[&KEYCLOAK[..], &files].concat());
    let address = program.addresses().1.to_string();
    program.logged("calls to the IAM fail");
    let listen = [("management.listen", address.as_str())];
    let settings = [&KEYCLOAK[..], &files, &listen].concat();

    fs::write(&identifiers, "").expect("written");
    let revoked = GATEWAY.run(&["revoke", "all"], &settings);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");

    fs::write(&token, "").expect("written");
    program.logged_with("code", "files_unreadable");
    let health = GATEWAY.run(&["healthcheck"], &settings);
    assert_eq!(health.code, Some(0), "{health:?}");
    let line = health.out.trim();
    assert!(line.starts_with("degraded: "), "{line}");
    assert!(line.contains("files_unreadable"), "{line}");
    let refused = GATEWAY.run(&["revoke", "all"], &settings);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let problem = "management.token_file: must not be empty";
    assert!(refused.err.contains(problem), "{}", refused.err);
    assert!(!refused.err.contains("identifier_key"), "{}", refused.err);

    let identifier = ["audit", "id", "--account", "alice@example.test"];
    let refused = GATEWAY.run(&identifier, &settings);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let problem = "keys.identifier_key_file: must not be empty";
    assert!(refused.err.contains(problem), "{}", refused.err);
    fs::write(&identifiers, "0123456789abcdef0123456789abcdef").expect("written");
    let computed = GATEWAY.run(&identifier, &settings);
    assert_eq!(computed.code, Some(0), "{computed:?}");
    assert!(!computed.out.trim().is_empty(), "{computed:?}");
}

#[test]
fn completions_contain_every_command() {
    let help = GATEWAY.run(&["--help"], &[]).out;
    let commands = help.split("Commands:\n").nth(1).expect("commands");
    let commands = commands.split("\n\n").next().expect("commands").lines();
    let commands: Vec<_> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(commands.contains(&"healthcheck"), "{commands:?}");
    for arguments in [
        &["completions", "bash"][..],
        &["completions", "zsh"],
        &["completions", "fish"],
    ] {
        let ended = GATEWAY.run(arguments, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for command in &commands {
            assert!(ended.out.contains(command), "{arguments:?}: {command}");
        }
    }
}
