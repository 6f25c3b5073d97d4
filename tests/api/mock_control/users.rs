//! Users that are created and changed at run time.

use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::namespace::{ALICE, BOB, Namespace, READ, WRITE, gateway};

const CAROL: &str = "carol@example.test";

fn carol() -> Value {
    json!({"email": CAROL, "password": "carol-pass", "permissions": [READ]})
}

fn addresses(users: &Value) -> Vec<&str> {
    let users = users["users"].as_array().expect("users");
    users
        .iter()
        .filter_map(|user| user["email"].as_str())
        .collect()
}

#[tokio::test]
async fn users_are_listed_by_address_without_passwords() {
    let mock = Namespace::alone();
    mock.session(ALICE).await;
    let users = mock.read("/users").await;
    assert_eq!(addresses(&users), [ALICE, BOB]);
    let alice = &users["users"][0];
    assert_eq!(alice["permissions"], json!([READ, WRITE]));
    assert_eq!(
        (&alice["state"], &alice["sessions"]),
        (&json!("active"), &json!(1))
    );
    assert!(!users.to_string().contains("pass"), "{users}");
    assert_eq!(mock.read(&format!("/users/{ALICE}")).await, *alice);
    // Addresses are case-insensitive and may be percent-encoded.
    assert_eq!(mock.read("/users/Alice%40EXAMPLE.test").await, *alice);
    let unknown = mock.call(Method::GET, "/users/unknown@example.test").await;
    unknown.is_error(404, "not_found");
}

#[tokio::test]
async fn created_user_logs_in_and_the_address_is_unique() {
    let mock = Namespace::alone();
    mock.try_log_in(CAROL).await.is_error(401, "invalid_grant");
    let created = mock.post("/users", &carol()).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["state"], json!("active"));
    let session = mock.session(CAROL).await;
    assert_eq!(mock.exchange(&session, READ).await.token().scope, READ);
    mock.post("/users", &carol())
        .await
        .is_error(409, "conflict");
    let dave = json!({"email": "dave@example.test", "password": "dave-pass", "state": "locked",
        "subject": "dave-1"});
    let dave = mock.post("/users", &dave).await.json();
    assert_eq!(
        (&dave["state"], &dave["subject"]),
        (&json!("locked"), &json!("dave-1"))
    );
    let same = json!({"email": "eve@example.test", "password": "eve-pass", "subject": "dave-1"});
    mock.post("/users", &same).await.is_error(409, "conflict");
}

#[tokio::test]
async fn user_without_address_or_password_or_with_an_invalid_permission_is_refused() {
    let mock = Namespace::alone();
    for (user, message) in [
        (json!({"password": "x"}), "missing field `email`"),
        (json!({"email": CAROL}), "missing field `password`"),
        (
            json!({"email": "carol", "password": "x"}),
            "`email` is not an e-mail address",
        ),
        (
            json!({"email": CAROL, "password": ""}),
            "the password is empty",
        ),
        (
            json!({"email": CAROL, "password": 7}),
            "`password`: must be a string",
        ),
        (
            json!({"email": CAROL, "password": "x", "permissions": ["a b"]}),
            "\"a b\" cannot be",
        ),
        (
            json!({"email": CAROL, "password": "x", "permissions": "a"}),
            "`permissions`: ",
        ),
        (
            json!({"email": CAROL, "password": "x", "state": "gone"}),
            "expected one of `active`",
        ),
        (
            json!({"email": CAROL, "password": "x", "subject": ""}),
            "`subject`: must not be empty",
        ),
        (
            json!({"email": CAROL, "password": "x", "subject": null}),
            "`subject`: ",
        ),
        (
            json!({"email": CAROL, "password": "x", "role": "x"}),
            "unknown field `role`, expected",
        ),
    ] {
        let answer = mock.post("/users", &user).await;
        answer.is_error(400, "invalid_request");
        let description = answer.json()["error_description"]
            .to_string()
            .replace('\\', "");
        assert!(description.contains(message), "{user} got {description}");
    }
    assert_eq!(addresses(&mock.read("/users").await), [ALICE, BOB]);
}

#[tokio::test]
async fn patch_changes_the_named_members_only() {
    let mock = Namespace::alone();
    let path = format!("/users/{ALICE}");
    let change = json!({ "password": "another" });
    let changed = mock.send_json(Method::PATCH, &path, &change).await;
    assert_eq!(changed.json()["permissions"], json!([READ, WRITE]));
    mock.try_log_in(ALICE).await.is_error(401, "invalid_grant");
    let another = SecretString::from("another");
    mock.log_in(ALICE, &another).await.session();
    let locked = json!({ "state": "locked" });
    let changed = mock.send_json(Method::PATCH, &path, &locked).await;
    assert_eq!(changed.json()["state"], json!("locked"));
    mock.log_in(ALICE, &another)
        .await
        .is_error(401, "invalid_grant");
    // One invalid member rejects the whole change.
    let half = json!({ "state": "active", "password": "" });
    let refused = mock.send_json(Method::PATCH, &path, &half).await;
    refused.is_error(400, "invalid_request");
    let half = json!({ "password": "x", "permissions": ["a b"] });
    let refused = mock.send_json(Method::PATCH, &path, &half).await;
    refused.is_error(400, "invalid_request");
    assert_eq!(mock.read(&path).await["state"], json!("locked"));
    let unlocked = json!({ "state": "active" });
    mock.send_json(Method::PATCH, &path, &unlocked).await;
    mock.log_in(ALICE, &another).await.session();
    let unknown = mock
        .send_json(Method::PATCH, "/users/unknown@x", &locked)
        .await;
    unknown.is_error(404, "not_found");
}

#[tokio::test]
async fn deleting_a_user_ends_the_sessions() {
    let mock = Namespace::alone();
    let session = mock.session(ALICE).await;
    mock.done(Method::DELETE, &format!("/users/{ALICE}")).await;
    mock.try_log_in(ALICE).await.is_error(401, "invalid_grant");
    mock.advance("31s").await;
    let answer = mock.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    let again = mock.call(Method::DELETE, &format!("/users/{ALICE}")).await;
    again.is_error(404, "not_found");
}

#[tokio::test]
async fn a_users_file_replaces_all_users_in_any_of_its_formats() {
    let gateway = gateway();
    for (format, file) in [
        (
            "application/json",
            r#"{"users": [{"email": "carol@example.test", "password": "carol-pass"}]}"#,
        ),
        (
            "application/toml",
            "[[users]]\nemail = \"carol@example.test\"\npassword = \"carol-pass\"\n",
        ),
        (
            "application/yaml; charset=utf-8",
            "users:\n- email: carol@example.test\n  password: carol-pass\n",
        ),
    ] {
        let mock = Namespace::named(&gateway, &format[..16].replace('/', "-"));
        let answer = mock
            .send(Method::PUT, "/users", &[("content-type", format)], file)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(addresses(&answer.json()), [CAROL]);
        mock.session(CAROL).await;
        mock.try_log_in(ALICE).await.is_error(401, "invalid_grant");
    }
    let mock = Namespace::unnamed(&gateway);
    let text = [("content-type", "text/csv")];
    let answer = mock.send(Method::PUT, "/users", &text, "carol").await;
    answer.is_error(415, "unsupported_media_type");
}

#[tokio::test]
async fn invalid_users_file_changes_nothing_and_is_reported() {
    let mock = Namespace::alone();
    let file = r#"{"users": [{"email": "a@b", "password": "x", "roles": []}]}"#;
    let json = [("content-type", "application/json")];
    let answer = mock.send(Method::PUT, "/users", &json, file).await;
    answer.is_error(400, "invalid_request");
    let description = answer.json()["error_description"].to_string();
    let message = "key roles is unknown; there are email, password";
    assert!(description.contains(message), "{description}");
    assert_eq!(addresses(&mock.read("/users").await), [ALICE, BOB]);
}

#[tokio::test]
async fn clearing_the_caches_affects_one_namespace_only() {
    let gateway = gateway();
    let [mock, other] = ["one", "other"].map(|name| Namespace::named(&gateway, name));
    let requested = format!("{READ} {WRITE}");
    let session = mock.session(ALICE).await;
    let elsewhere = other.session(ALICE).await;
    let fewer = json!({"permissions": [READ]});
    let path = format!("/users/{ALICE}");
    for namespace in [&mock, &other] {
        namespace.send_json(Method::PATCH, &path, &fewer).await;
    }
    assert_eq!(
        mock.exchange(&session, &requested).await.token().scope,
        requested
    );
    // The clock does not advance here, and data of the same instant is distrusted as well.
    mock.advance("1s").await;
    assert_eq!(
        mock.exchange(&session, &requested).await.token().scope,
        requested
    );
    mock.done(Method::POST, "/forget").await;
    mock.advance("1s").await;
    assert_eq!(
        mock.exchange(&session, &requested).await.token().scope,
        READ
    );
    assert_eq!(mock.calls("operation=introspection").await, 1);
    let kept = other.exchange(&elsewhere, &requested).await.token();
    assert_eq!(kept.scope, requested);
    assert_eq!(other.calls("operation=introspection").await, 0);
}

#[tokio::test]
async fn exported_users_file_restores_the_users_in_another_namespace() {
    let gateway = gateway();
    let mock = Namespace::unnamed(&gateway);
    mock.post("/users", &carol()).await;
    let secret = json!({"email": "erin@example.test", "password": "erin-pass", "state": "locked",
        "totp_secret": "GEZDGNBVGY3TQOJQ", "attributes": {"level": 3}});
    mock.post("/users", &secret).await;
    for format in ["json", "toml"] {
        let file = mock
            .call(Method::GET, &format!("/users-file?format={format}"))
            .await;
        let media_type = format!("application/{format}");
        assert_eq!(file.headers["content-type"], *media_type);
        let target = Namespace::named(&gateway, format);
        let headers = [("content-type", &*media_type)];
        let replaced = target
            .send(Method::PUT, "/users", &headers, file.body.clone())
            .await;
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        assert_eq!(
            target.read("/users").await["users"]
                .as_array()
                .map(Vec::len),
            Some(4)
        );
        let again = target
            .call(Method::GET, &format!("/users-file?format={format}"))
            .await;
        assert_eq!(again.body, file.body);
        target.session(CAROL).await;
    }
    let user =
        json!({"email": "f@example.test", "password": "f-pass", "attributes": {"level": null}});
    mock.post("/users", &user).await;
    mock.call(Method::GET, "/users-file")
        .await
        .is_error(409, "conflict");
    mock.call(Method::GET, "/users-file?format=yaml")
        .await
        .is_error(400, "invalid_request");
}
