use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::super::users::AccountState;
use super::*;

fn problems(text: &str, format: Format) -> String {
    parse(text, format, "users")
        .expect_err("is refused")
        .to_string()
}

/// The same users in all three formats.
const CAROL: [(&str, Format); 3] = [
    (
        r#"
        [[users]]
        email = "Carol@Example.test"
        password = " s p a c e s "
        permissions = ["b", "a", "b"]
        state = "incomplete"
        subject = "0-1-2"
        [[users]]
        email = "dave@example.test"
        password = "271828"
        totp_secret = "JBSWY3DPEHPK3PXP"
        "#,
        Format::Toml,
    ),
    (
        r#"{"users": [
            {"email": "Carol@Example.test", "password": " s p a c e s ", "subject": "0-1-2",
             "permissions": ["b", "a", "b"], "state": "incomplete"},
            {"email": "dave@example.test", "password": "271828", "totp_secret": "JBSWY3DPEHPK3PXP"}
        ]}"#,
        Format::Json,
    ),
    (
        "%YAML 1.2\n---\n# Comment\nusers:\n- email: Carol@Example.test\n  password: ' s p a c e s '\n  \
         permissions:\n    - b\n    - \"a\"\n    - b\n  state: incomplete\n  subject: 0-1-2\n\
         - {email: dave@example.test, password: '271828', totp_secret: JBSWY3DPEHPK3PXP}\n",
        Format::Yaml,
    ),
];

#[test]
fn every_format_has_all_members_of_a_user() {
    for (text, format) in CAROL {
        let users = parse(text, format, "users").expect("users");
        let (_, carol) = users.find("carol@example.test").expect("carol");
        assert_eq!(carol.email(), "Carol@Example.test");
        assert_eq!(carol.password.expose_secret(), " s p a c e s ");
        assert_eq!(carol.permissions().iter().count(), 2);
        assert_eq!(carol.state(), AccountState::Incomplete);
        assert_eq!(carol.subject().as_str(), "0-1-2");
        assert!(carol.totp().is_none());
        let (_, dave) = users.find("dave@example.test").expect("dave");
        assert_eq!(dave.password.expose_secret(), "271828");
        assert_eq!(dave.state(), AccountState::Active);
        let otp = dave.totp().map(|totp| totp.otp_at(Duration::ZERO));
        assert_eq!(otp.as_deref(), Some("282760"));
        assert_eq!(users.iter().len(), 2);
    }
}

#[test]
fn the_demo_users_are_alice_and_bob() {
    let users = load(None).expect("demo users");
    let mut message: Vec<_> = users
        .iter()
        .map(|u| (u.email(), u.password.expose_secret(), u.permissions().len()))
        .collect();
    message.sort_unstable();
    assert_eq!(
        message,
        [
            ("alice@example.test", "alice-pass", 2),
            ("bob@example.test", "bob-pass", 1)
        ]
    );
}

#[test]
fn every_problem_is_reported_with_its_entry_in_every_format() {
    let json = r#"{"users": [
        {"email": "a@b", "password": "canary"},
        {"email": "A@B", "password": "canary"},
        {"email": "no-address", "password": "canary", "role": "x", "state": "gone"},
        {"email": "c@d", "password": ""},
        {"email": "e@f", "password": "canary", "permissions": ["a", "two words"]},
        {"email": "g@h", "password": "canary", "subject": ""},
        {"email": "i@j", "password": "canary", "subject": "same"},
        {"email": "k@l", "password": "canary", "subject": "same"},
        {"password": "canary", "permissions": "a"},
        {"email": "m@n", "password": 271828},
        "canary",
        {"email": "o@p"},
        {"email": "q@r", "password": "canary", "totp_secret": "canary!"},
        {"email": "s@t", "password": "canary", "totp_secret": 271828}
    ], "roles": []}"#;
    // The JSON text is also valid YAML.
    let toml: toml::Table = serde_json::from_str(json).expect("a table");
    let toml = toml::to_string(&toml).expect("TOML");
    for (text, format) in [
        (json, Format::Json),
        (json, Format::Yaml),
        (&toml, Format::Toml),
    ] {
        let message = problems(text, format);
        for expected in [
            "users: ",
            "at the top is unknown; there is only \"users\"",
            "; user 2 (\"A@B\"): the address is taken",
            "; user 3: key ",
            " is unknown; there are email, password, permissions, state, subject",
            "; user 3: the state must be active, disabled, locked or incomplete",
            "; user 3: `email` is not an e-mail address",
            "; user 4 (\"c@d\"): the password is empty",
            "; user 5 (\"e@f\"): permission 2 cannot be part of a scope",
            "; user 6 (\"g@h\"): the subject is empty",
            "; user 8 (\"k@l\"): the subject is taken",
            "; user 9: email is missing",
            "; user 9: permissions must be a list of strings",
            "; user 10 (\"m@n\"): the password is not a string in quotes",
            "; user 11: must be a table of keys and values",
            "; user 12 (\"o@p\"): password is missing",
            "; user 13 (\"q@r\"): the totp_secret is not base32",
            "; user 14 (\"s@t\"): the totp_secret is not a string in quotes",
        ] {
            assert!(message.contains(expected), "{expected} is not in {message}");
        }
        assert!(!message.contains("canary"), "{message}");
        assert!(
            !message.contains("user 1:") && !message.contains("user 7"),
            "{message}"
        );
    }
}

#[test]
fn repeated_key_is_a_problem_in_every_format() {
    let text =
        r#"{"users": [{"email": "a@b", "password": "x", "state": "active", "state": "active"}]}"#;
    for format in [Format::Json, Format::Yaml] {
        let message = problems(text, format);
        assert_eq!(message, "users: user 1 (\"a@b\"): state is present twice");
    }
    let message = problems(r#"{"users": [], "users": []}"#, Format::Json);
    assert_eq!(message, "users: users is present twice");
    let message = problems("[[users]]\nemail = 'a@b'\nemail = 'a@b'", Format::Toml);
    assert!(message.starts_with("users: line 3: "), "{message}");
}

#[test]
fn syntax_error_is_reported_with_its_position() {
    for (text, format, expected) in [
        ("[[users]]\nemail 'a@b'", Format::Toml, "users: line 2: "),
        (
            "{\n \"users\": [},",
            Format::Json,
            "users: line 2, column 12: expected value",
        ),
        (
            "users:\n- email: a: b",
            Format::Yaml,
            "users: line 2, column ",
        ),
        (
            "users: []\n---\nusers: []",
            Format::Yaml,
            "users: line 3, column 1: a second document",
        ),
        (
            "? [a]\n: b",
            Format::Yaml,
            "users: line 1, column 3: a key that",
        ),
    ] {
        let message = problems(text, format);
        assert!(message.starts_with(expected), "{text:?} gives {message}");
    }
    // The message does not quote even the first character of a password.
    let message = problems("users:\n- password: @x", Format::Yaml);
    assert_eq!(message, "users: line 2, column 13: unexpected character");
    for text in [
        "users: &a [*a]",
        "users: &a []",
        "users: *a",
        "users: [!x {}]",
    ] {
        let message = problems(text, Format::Yaml);
        assert!(
            message.contains(": anchors, aliases and tags are not "),
            "{message}"
        );
    }
    let deep = format!("users: {}{}", "[".repeat(20), "]".repeat(20));
    let message = problems(&deep, Format::Yaml);
    assert!(message.contains(": too many levels"), "{message}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&deep, Format::Yaml, "users").is_err());
}

#[test]
fn plain_yaml_scalar_is_a_string_unless_the_core_schema_gives_it_another_type() {
    let read = |scalar: &str| {
        let text = format!("users: [{{email: a@b, password: {scalar}}}]");
        let users = parse(&text, Format::Yaml, "users").ok()?;
        Some(users.find("a@b")?.1.password.expose_secret().to_owned())
    };
    for other in [
        "~", "null", "True", "false", "1", "-1.5e3", "+1", "0x1F", "0o17", ".5", ".inf", "-.Inf",
        ".nan", "",
    ] {
        assert_eq!(read(other), None, "{other:?}");
    }
    for text in [
        "no",
        "on",
        "nan",
        "inf",
        "1.2.3",
        "0xyz",
        "x1",
        "1-2",
        "2026-01-01",
        "-x",
        "a:b",
    ] {
        assert_eq!(read(text).as_deref(), Some(text), "{text:?}");
    }
}

#[test]
fn format_follows_from_the_extension_which_is_required() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, format) in CAROL {
        let names: &[&str] = match format {
            Format::Toml => &["a.toml"],
            Format::Json => &["a.json"],
            Format::Yaml => &["a.yaml", "a.yml"],
        };
        for name in names {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            assert_eq!(load(Some(&path)).expect("users").iter().len(), 2, "{name}");
        }
    }
    for name in ["users", "users.txt", "users.TOML", ".toml"] {
        let path = folder.path().join(name);
        std::fs::write(&path, CAROL[0].0).expect("written");
        let message = load(Some(&path)).expect_err("is refused").to_string();
        let expected = format!("{}: its name must end in .toml, .json, ", path.display());
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn file_without_users_and_missing_file_are_refused() {
    for (text, format) in [
        ("", Format::Toml),
        ("users = []", Format::Toml),
        ("{}", Format::Json),
        ("", Format::Yaml),
        ("# no users\n---\n", Format::Yaml),
        ("users: []", Format::Yaml),
    ] {
        let message = problems(text, format);
        assert!(
            message == "users: there are no users" || text.contains("no users"),
            "{message}"
        );
    }
    let message = load(Some(Path::new("no/such/users.toml"))).expect_err("is refused");
    assert!(
        message
            .to_string()
            .starts_with("no/such/users.toml: cannot be read"),
        "{message}"
    );
}

/// Fails if the message quotes a secret of the text.
fn assert_quotes_nothing(text: &str, format: Format) {
    let message = problems(text, format);
    for secret in ["canary", "271828"] {
        assert!(!message.contains(secret), "{text:?} gives {message}");
    }
}

#[test]
fn no_message_about_invalid_toml_quotes_a_password() {
    for line in [
        "password = 271828",
        "password = 271828182845904523536",
        "password = 271828182845904523536028747135266249775",
        "password = canary",
        "password = 'canary",
        "password = \"canary\n",
        "password = ['canary']",
        "password = { canary-1 = 271828 }",
        "password.canary-1 = 271828",
        "password = 'canary' 'canary'",
        "password = \"canary\\q\"",
        "password 'canary'",
        "password = 'canary'\npassword = 'canary'",
        "passwort = 'canary'",
        "canary-1 = 'password'",
        "canary",
        "password = 'canary'\nstate = 'gone'",
        "password = 'canary'\nstate = 'canary'",
        "password = 'canary'\npermissions = 'a'",
        "password = 'canary'\npermissions = ['a canary']",
        "password = 'canary'\npermissions = ['a', { canary = 'canary' }]",
        "password = 'canary'\nsubject = ['canary']",
    ] {
        assert_quotes_nothing(&format!("[[users]]\nemail = 'a@b'\n{line}\n"), Format::Toml);
    }
    for text in [
        "canary-1 = 'canary'",
        "[canary-1]\ncanary-1 = 1\n[canary-1]",
        "[canary-1]\ncanary-1 = 1",
        "users = 'canary'",
        "users = ['canary']",
        "[[users]]\nemail = 'canary'\npassword = 'a@b'",
        "[[users]]\nemail = 'a@b password: canary'\npassword = 'x'\nstate = 1",
    ] {
        assert_quotes_nothing(text, Format::Toml);
    }
}

#[test]
fn no_message_about_invalid_json_quotes_a_password() {
    for members in [
        r#""password": 271828"#,
        r#""password": canary"#,
        r#""password": "canary"#,
        r#""password": "canary\q""#,
        r#""password": ["canary"]"#,
        r#""password": {"canary": 271828}"#,
        r#""password" "canary""#,
        r#""password": "canary" "canary""#,
        r#""password": "canary", "password": "canary""#,
        r#""passwort": "canary""#,
        r#""canary-1": "password""#,
        r#""password": null, "canary-1": null"#,
        "'password': 'canary'",
        "password: canary",
        r#""password": "canary", "state": "canary""#,
        r#""password": "canary", "permissions": "canary""#,
        r#""password": "canary", "permissions": ["a canary"]"#,
        r#""password": "canary", "subject": 271828"#,
    ] {
        assert_quotes_nothing(
            &format!(r#"{{"users": [{{"email": "a@b", {members}}}]}}"#),
            Format::Json,
        );
    }
    for text in [
        "",
        "canary",
        "\"canary\"",
        r#"["canary"]"#,
        r#"{"canary-1": "canary"}"#,
        r#"{"users": "canary"}"#,
        r#"{"users": ["canary"]}"#,
        r#"{"users": {"canary": "canary"}}"#,
        r#"{"users": [{"email": "canary", "password": "a@b"}]}"#,
        r#"{"users": [{"email": "a@b\", \"password\": \"canary\"}]}"#,
        r#"{"users": [{"email": "a@b", "password": "x"}]} canary"#,
    ] {
        assert_quotes_nothing(text, Format::Json);
    }
}

#[test]
fn no_message_about_invalid_yaml_quotes_a_password() {
    for line in [
        "password: 271828",
        "password:canary",
        "password canary",
        "password: 'canary",
        "password: \"canary",
        "password: \"canary\\q\"",
        "password: 'canary' canary",
        "password: [canary]",
        "password: {canary: 271828}",
        "password: canary: canary",
        "password: @canary",
        "password: `canary",
        "password: %canary",
        "password: *canary",
        "password: &canary x",
        "password: &canary",
        "password: !canary x",
        "password: !!canary x",
        "password: !<canary> x",
        "password: !c!canary x",
        "password: !!int canary",
        "password: !!bool canary",
        "password: !!binary canary",
        "password: &canary a\n  state: *canary",
        "~: canary",
        "password: |\ncanary",
        "password: >canary",
        "password:\n    - canary",
        "password:\n    canary: canary",
        "password:\n\tcanary",
        "password: canary\n  password: canary",
        "passwort: canary",
        "canary-1: password",
        "? [canary]\n  : x",
        "? canary-1",
        "<<: *canary",
        "password: canary\n canary-1: canary",
        "password: canary\n  state: canary",
        "password: canary\n  permissions: canary",
        "password: canary\n  permissions:\n  - a\n    password:canary",
        "password: canary\n  permissions: [a, {password: canary}]",
        "password: canary\n  subject: [canary]",
    ] {
        assert_quotes_nothing(&format!("users:\n- email: a@b\n  {line}\n"), Format::Yaml);
    }
    for text in [
        "canary",
        "- canary",
        "canary-1: canary",
        "users: canary",
        "users: {canary: canary}",
        "users: [{email: a@b, password, canary-1}]",
        "users: [{email: a@b, password, canary}]",
        "users: [{email: a@b, canary}]",
        "{canary, users: [{email: a@b, password: x}]}",
        "users:\n- email: a@b\n  ? canary\n",
        "users: [{email: canary, password: a@b}]",
        "users: [{email: a@b, password: x}]\n---\ncanary",
        "users: [{email: a@b, password: x}]\n...\ncanary-1: canary",
        "%canary canary\n---\nusers: []",
        "%TAG !c! canary\n%TAG !c! canary\n---\nusers: []",
        "users: [{email: a@b password: canary}]",
        "users:\n- email: a@b password:canary\n  password: x\n  state: gone",
    ] {
        assert_quotes_nothing(text, Format::Yaml);
    }
}

#[test]
fn attributes_are_texts_whole_numbers_booleans_lists_and_tables_in_every_format() {
    let expected =
        json!({"text": "x", "number": -3, "yes": true, "list": ["a", 1], "table": {"b": false}});
    for (format, text) in [
        (
            Format::Toml,
            r#"[[users]]
            email = "a@b.test"
            password = "p"
            attributes = { text = "x", number = -3, yes = true, list = ["a", 1], table = { b = false } }"#,
        ),
        (
            Format::Json,
            r#"{"users": [{"email": "a@b.test", "password": "p", "attributes":
            {"text": "x", "number": -3, "yes": true, "list": ["a", 1], "table": {"b": false}}}]}"#,
        ),
        (
            Format::Yaml,
            "users:\n- email: a@b.test\n  password: p\n  attributes: {text: x, number: -3, yes: true, list: [a, 1], table: {b: false}}",
        ),
    ] {
        let users = parse(text, format, "users").unwrap();
        let user = users.iter().next().unwrap();
        assert_eq!(
            Value::from(user.attributes().clone()),
            expected,
            "{format:?}"
        );
    }
    for wrong in [
        "\"text\"",
        "[1]",
        "{\"a\": 1.5}",
        "{\"a\": null}",
        "{\"a\": 1, \"a\": 2}",
    ] {
        let text = format!(
            r#"{{"users": [{{"email": "a@b.test", "password": "p", "attributes": {wrong}}}]}}"#
        );
        let problems = parse(&text, Format::Json, "users").unwrap_err();
        assert!(
            problems.to_string().contains("attributes must be a table"),
            "{problems}"
        );
    }
    for wrong in ["1979-05-27", "{ a = 1979-05-27 }", "{ a = [07:32:00] }"] {
        let text = format!("[[users]]\nemail = 'a@b.test'\npassword = 'p'\nattributes = {wrong}\n");
        let message = problems(&text, Format::Toml);
        assert!(message.contains("attributes must be a table"), "{message}");
    }
}

#[test]
fn written_file_has_the_same_users() {
    let (toml, format) = CAROL[0];
    let read = parse(toml, format, "users").expect("users");
    let users: Vec<_> = read.iter().cloned().collect();
    let eve = User::new(
        "eve@example.test",
        "quotes \" and ' \\".into(),
        Permissions::default(),
    );
    let attributes =
        json!({"department": "sales", "level": 3, "teams": [{"name": "a"}], "lead": true});
    let attributes = attributes.as_object().cloned().expect("a table");
    let eve = Arc::new(eve.expect("valid").with_attributes(attributes));
    let users: Vec<_> = users.into_iter().chain([eve]).collect();
    for format in Format::ALL {
        let text = write(&users, format).expect("is written");
        let again = parse(text.expose_secret(), format, "users").expect("is read");
        assert_eq!(again.iter().len(), users.len());
        for user in &users {
            let (_, same) = again.find(user.email()).expect("the user");
            assert_eq!(same.password.expose_secret(), user.password.expose_secret());
            assert_eq!(same.permissions(), user.permissions());
            assert_eq!(same.state(), user.state());
            assert_eq!(same.subject(), user.subject());
            assert_eq!(same.attributes(), user.attributes());
            let secret = |user: &User| {
                user.totp()
                    .map(|totp| totp.secret().expose_secret().to_owned())
            };
            assert_eq!(secret(&same), secret(user));
        }
    }
}

#[test]
fn users_that_a_file_cannot_have_are_not_written() {
    for format in Format::ALL {
        assert!(
            write(&[], format)
                .expect_err("no users")
                .to_string()
                .contains("there are no users")
        );
        for value in [json!(null), json!(1.5)] {
            let user = User::new("a@b", "canary".into(), Permissions::default()).expect("valid");
            let user = user.with_attributes(Map::from_iter([("level".to_owned(), value)]));
            let message = write(&[Arc::new(user)], format)
                .expect_err("attributes")
                .to_string();
            assert!(message.contains("attributes must be a table"), "{message}");
            assert!(!message.contains("canary"), "{message}");
        }
    }
}
