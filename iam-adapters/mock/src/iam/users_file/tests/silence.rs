use super::*;

/// Holds a message against what stood in the text.
fn shows_nothing(text: &str, format: Format) {
    let told = problems(text, format);
    for secret in ["canary", "271828"] {
        assert!(!told.contains(secret), "{text:?} gives {told}");
    }
}

#[test]
fn no_message_shows_a_password_however_it_is_miswritten_in_toml() {
    for line in [
        "password = 271828",
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
        shows_nothing(&format!("[[users]]\nemail = 'a@b'\n{line}\n"), Format::Toml);
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
        shows_nothing(text, Format::Toml);
    }
}

#[test]
fn no_message_shows_a_password_however_it_is_miswritten_in_json() {
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
        shows_nothing(
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
        shows_nothing(text, Format::Json);
    }
}

#[test]
fn no_message_shows_a_password_however_it_is_miswritten_in_yaml() {
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
        shows_nothing(&format!("users:\n- email: a@b\n  {line}\n"), Format::Yaml);
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
        shows_nothing(text, Format::Yaml);
    }
}
